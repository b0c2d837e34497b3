"""Reads of segments, for other stages too."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

import orjson

from eunoe.schemas.documents import read_document, reading_raw
from eunoe.schemas.events import Line
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.features import LineFeatures
from eunoe.workers.compress.segments import Frequency, SegmentStats, segment_id
from eunoe.workers.compress.tables import NAME, READINGS, SEGMENTS, STATS, TERMS
from eunoe.workers.stores.documents.term_counts import read_numbers

__all__ = [
    "LineFeatures",
    "SegmentStats",
    "read_frequencies",
    "read_last_line",
    "read_line_features",
    "read_segment_texts",
    "read_segments",
    "read_session_days",
    "read_session_segments",
    "read_stats",
    "segment_id",
]


_DATE_CHARS: Final = len("2026-01-02")
SEGMENT_PAGE: Final = 32
"""Segments read at once where their number is not known."""


async def read_stats(store: StateStore, key: str) -> SegmentStats:
    """The statistics of a conversation's segments; empty if there are none."""
    (text,) = await store.fetch(NAME, key, STATS, [STATS])
    return SegmentStats() if text is None else read_document(SegmentStats, text, key)


async def read_frequencies(store: StateStore, key: str, wanted: set[str]) -> dict[str, int]:
    """Term → number of segments that contain it, for the wanted terms that occur."""
    return await read_numbers(store, (NAME, key, TERMS), Frequency, wanted)


async def read_segments(
    store: StateStore, key: str, ids: Sequence[str], parse: Callable[[str], Segment] = Segment.from_json
) -> list[Segment]:
    """The stored segments with these ids, in the given order; unknown ids are left out.

    ``parse`` may cache.
    """
    return [read_document(Segment, row, key, parse) for row in await read_segment_texts(store, key, ids)]


async def read_segment_texts(store: StateStore, key: str, ids: Sequence[str]) -> list[str]:
    """The texts of these segments as they are stored, in the given order; unknown ids are left out."""
    rows = await store.fetch(NAME, key, SEGMENTS, ids) if ids else []
    return [row for row in rows if row is not None]


async def read_session_segments(store: StateStore, key: str, session: int) -> list[Segment]:
    """The stored segments of a session, in order; empty where it has none."""
    return [read_document(Segment, text, key) for text in await _session_texts(store, key, session)]


async def read_session_days(store: StateStore, key: str, sessions: Sequence[int]) -> dict[int, date]:
    """Session → the day of its first line by its speaker's clock, in order; sessions without segments are left out."""
    texts = await read_segment_texts(store, key, [segment_id(key, session, 0) for session in sessions])
    with reading_raw(Segment, key):
        found = [one for one in map(orjson.loads, texts) if one["lines"]]
        return {one["session"]: date.fromisoformat(one["lines"][0]["at"][:_DATE_CHARS]) for one in found}


async def read_last_line(store: StateStore, key: str, session: int) -> Line | None:
    """The last line of a session's segments; `None` where it has none."""
    texts = await _session_texts(store, key, session)
    with reading_raw(Segment, key):
        return Line.model_validate(orjson.loads(texts[-1])["lines"][-1]) if texts else None  # each ask reads it


async def _session_texts(store: StateStore, key: str, session: int) -> list[str]:
    found: list[str] = []
    while True:
        ids = [segment_id(key, session, len(found) + place) for place in range(SEGMENT_PAGE)]
        page = await read_segment_texts(store, key, ids)
        found += page
        if len(page) < SEGMENT_PAGE:
            return found


async def read_line_features(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, LineFeatures]:
    """Segment id → features of its lines, for the segments that have them."""
    if not ids:
        return {}
    rows = await store.fetch(NAME, key, READINGS, ids)
    return {id_: read_document(LineFeatures, row, key) for id_, row in zip(ids, rows, strict=True) if row is not None}
