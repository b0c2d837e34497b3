"""The tables of stage compress, and the index entries of their documents."""

import orjson

from eunoe.schemas.decisions import Collection as Points
from eunoe.workers.tables import Indexed, IndexEntry, StageTables

NAME = "compress"
SEGMENTS, TERMS, STATS, READINGS = "segments", "terms", "stats", "readings"


def index_entry(document: str) -> IndexEntry | None:
    """The expected index entry of a segment's document; `None` if it has no denoised text."""
    raw = orjson.loads(document)  # validated when it was written; every worker looks at dozens each five seconds
    if not raw["denoised"]:
        return None
    return IndexEntry(raw["segment_id"], raw["denoised"], raw["session"], raw["session"])


TABLES = StageTables(
    digested=(SEGMENTS, TERMS, STATS),
    left_out={READINGS: "derived from segments; an endpoint may return different vectors for the same text"},
    indexed=(Indexed(Points.SEGMENTS, SEGMENTS, index_entry),),
)
