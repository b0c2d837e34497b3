"""The tables of stage update, and the index entries of their documents."""

import orjson

from eunoe.schemas.decisions import Collection
from eunoe.workers.tables import Indexed, IndexEntry, StageTables

NAME = "update"
MEMORIES, CURRENT, TERMS, STATS = "memories", "current", "terms", "stats"
CHANGES, SAID, CARRIED = "changes", "said", "carried"


def index_entry(document: str) -> IndexEntry:
    """The expected index entry of a memory's document, also of a newer version's: what the index has is read alone."""
    raw = orjson.loads(document)
    notes = (*filter(None, (raw.get("ending"),)), *raw.get("reinforced", ()), *raw.get("suspected", ()))
    changed = max([raw["session"], *(note["session"] for note in notes)])
    return IndexEntry(raw["memory_id"], raw["text"], changed, changed)


TABLES = StageTables(
    digested=(MEMORIES, CURRENT, TERMS, STATS, CHANGES, SAID, CARRIED),
    indexed=(Indexed(Collection.MEMORIES, MEMORIES, index_entry),),
)
