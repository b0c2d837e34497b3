"""What a session brings into the tree: its memories, or its segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.decisions import Wait
from eunoe.schemas.memory import ChangeKind, MemoriesChanged, Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import compressed_session, read_segments, segment_id
from eunoe.workers.tree.tree import LeafEntry

_SEGMENTS_AT_ONCE = 16
ENDINGS = frozenset({ChangeKind.SUPERSEDED, ChangeKind.RETIRED})


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The new leaves of a session, in order, and the entries that no longer hold since it."""

    entries: tuple[LeafEntry, ...] = ()
    ended: tuple[str, ...] = ()


class EntrySource(Protocol):
    """Where leaves come from."""

    async def arrivals(self, event: MemoriesChanged) -> Arrivals | Wait:
        """What the session brings; raises `Unavailable` when a store is."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryEntries:
    """The memories that the session added become leaves; what it superseded or retired is marked."""

    async def arrivals(self, event: MemoriesChanged) -> Arrivals:
        """All that the event itself tells; a memory that was born superseded becomes a marked leaf."""
        ended = (change.memory.memory_id for change in event.changes if change.kind in ENDINGS)
        added = {memory.memory_id: memory for memory in event.added}
        return Arrivals(tuple(map(memory_entry, added.values())), tuple(dict.fromkeys(ended)))


def memory_entry(memory: Memory) -> LeafEntry:
    """The leaf of a memory, about whom it speaks and whom it quotes."""
    speakers = tuple(dict.fromkeys((memory.speaker, *(line.speaker for line in memory.evidence))))
    return LeafEntry(memory.memory_id, memory.text, speakers, memory.at, ended=memory.ending is not None)


@dataclass(frozen=True, slots=True)
class SegmentEntries:
    """The session's denoised segments become leaves; nothing ends."""

    store: StateStore

    async def arrivals(self, event: MemoriesChanged) -> Arrivals | Wait:
        """The segments of the session, when compress has applied it."""
        applied = await compressed_session(self.store, event.key)
        if applied < event.session:
            return Wait(f"compress has applied {applied}, not yet {event.session}")
        return Arrivals(tuple(segment_entry(segment) for segment in await self._segments(event) if segment.denoised))

    async def _segments(self, event: MemoriesChanged) -> list[Segment]:
        found: list[Segment] = []
        while True:
            places = range(len(found), len(found) + _SEGMENTS_AT_ONCE)
            ids = [segment_id(event.key, event.session, place) for place in places]
            more = await read_segments(self.store, event.key, ids)
            found += more
            if len(more) < _SEGMENTS_AT_ONCE:
                return found


def segment_entry(segment: Segment) -> LeafEntry:
    """The leaf of a segment that has something denoised."""
    lines = [line for line in segment.lines if line.is_evidence]
    speakers = tuple(dict.fromkeys(line.speaker for line in lines))
    return LeafEntry(segment.segment_id, segment.denoised, speakers, max(line.at for line in lines))


def names_of(known: Sequence[str], entries: Sequence[LeafEntry], limit: int) -> tuple[str, ...]:
    """All speakers so far in order of appearance, bounded."""
    return tuple(dict.fromkeys((*known, *(name for entry in entries for name in entry.speakers))))[:limit]
