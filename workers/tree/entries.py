"""The entries that a session adds to the tree, and those that end with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eunoe.schemas.memory import MemoriesChanged, Memory
from eunoe.workers.tree.tree import LeafEntry
from eunoe.workers.update.reads import endings_of


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """A session's new leaves, in order, and the entries that end with it."""

    entries: tuple[LeafEntry, ...] = ()
    ended: Mapping[str, str | None] = field(default_factory=dict)
    """Id → the id of the entry that says all of it too; `None` where it no longer holds."""


def entry_changes(event: MemoriesChanged) -> EntryChanges:
    """The changes in an event: added memories are leaves, superseded and retired ones end.

    A sentence that a memory passes (Keep Me Updated, section 4.3) is no new information (MemTree, section 3.1): that
    memory has a leaf already. Any other memory that was added as superseded becomes a marked leaf.
    """
    endings = endings_of(event)
    added = {memory.memory_id: memory for memory in event.added if memory.memory_id not in endings.repeated}
    return EntryChanges(tuple(map(_entry, added.values())), endings.said_by)


def _entry(memory: Memory) -> LeafEntry:
    """The leaf of a memory, with its speaker and those of its evidence."""
    return LeafEntry(memory.memory_id, memory.text, memory.speakers, memory.at, ended=memory.ending is not None)
