"""The entries that a session adds to the tree: its memories, or its segments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from eunoe.schemas.decisions import Wait
from eunoe.schemas.memory import MemoriesChanged, Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import compressed_session, read_segments, segment_id
from eunoe.workers.tree.tree import LeafEntry
from eunoe.workers.update.reads import endings_of, updated_session

_SEGMENTS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """A session's new leaves, in order, and the entries that end with it."""

    entries: tuple[LeafEntry, ...] = ()
    ended: Mapping[str, str | None] = field(default_factory=dict)
    """Id → the id of the entry that says all of it too; `None` where it no longer holds."""


class EntrySource(Protocol):
    """A source of leaves."""

    async def changes(self, event: MemoriesChanged) -> EntryChanges | Wait:
        """The session's changes; `Wait` until they can be read. Raises `Unavailable` if a store is unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryEntries:
    """Makes added memories leaves, and marks those that were superseded or retired.

    A sentence that a memory passes (Keep Me Updated, section 4.3) is no new information (MemTree, section 3.1): that
    memory has a leaf already.
    """

    async def changes(self, event: MemoriesChanged) -> EntryChanges:
        """The changes in the event itself; a memory added as superseded becomes a marked leaf unless it repeats one."""
        endings = endings_of(event)
        added = {memory.memory_id: memory for memory in event.added if memory.memory_id not in endings.repeated}
        return EntryChanges(tuple(map(memory_entry, added.values())), endings.said_by)


def memory_entry(memory: Memory) -> LeafEntry:
    """The leaf of a memory, with its speaker and those of its evidence."""
    return LeafEntry(memory.memory_id, memory.text, memory.speakers, memory.at, ended=memory.ending is not None)


@dataclass(frozen=True, slots=True)
class SegmentEntries:
    """Makes the session's denoised segments leaves; no entry ends."""

    store: StateStore

    async def changes(self, event: MemoriesChanged) -> EntryChanges | Wait:
        """The session's segments; `Wait` until `compress` has applied the session.

        That may lag. A session that `update` has not applied was lost, or somebody forged the event.
        """
        updated = await updated_session(self.store, event.key)
        if updated < event.session:
            return Wait(f"update has applied {updated}, not yet {event.session}", holds=True)
        applied = await compressed_session(self.store, event.key)
        if applied < event.session:
            return Wait(f"compress has applied {applied}, not yet {event.session}")
        return EntryChanges(
            tuple(segment_entry(segment) for segment in await self._segments(event) if _is_findable(segment))
        )

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
    """The leaf of a segment with denoised text."""
    lines = [line for line in segment.lines if line.is_evidence]
    speakers = tuple(dict.fromkeys(line.speaker for line in lines))
    return LeafEntry(segment.segment_id, segment.denoised, speakers, max(line.at for line in lines))


def _is_findable(segment: Segment) -> bool:
    """Whether the segment has denoised text, and not of replies alone."""
    return bool(segment.denoised) and any(line.is_evidence for line in segment.lines)
