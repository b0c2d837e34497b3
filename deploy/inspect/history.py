"""The history of one memory, from the rows of its own sessions; no table is scanned."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from eunoe.schemas.memory import ChangeKind, Memory
from eunoe.schemas.ports import StateStore
from eunoe.workers.update.memories import SessionSteps
from eunoe.workers.update.reads import HistoryEntry, read_memories, read_steps

MAX_HISTORY: Final = 500
"""Memories that one history follows."""


async def bounded_history(store: StateStore, key: str, memory_id: str) -> list[HistoryEntry]:
    """The changes of a memory, of those that it superseded and of its successors; reads only their sessions.

    Empty where the memory is unknown. At most `MAX_HISTORY` memories are followed.
    """
    walk = _HistoryWalk(store, key)
    await walk.follow([memory_id], _successors)
    await walk.follow([memory_id], walk.predecessors)
    known, steps = walk.known, walk.steps
    causes = {step.by for each in steps.values() for step in each.steps if step.memory_id in known and step.by}
    others = {memory.memory_id: memory for memory in await read_memories(store, key, sorted(causes - known.keys()))}
    return [
        HistoryEntry(
            session=each.session,
            known_from=each.known_from,
            at=step.at,
            kind=step.kind,
            memory=known[step.memory_id],
            by=(known | others).get(step.by or ""),
            because=step.because,
        )
        for _, each in sorted(steps.items())
        for step in each.steps
        if step.memory_id in known
    ]


@dataclass(slots=True)
class _HistoryWalk:
    """The memories of a history found so far, and the changes of their sessions."""

    store: StateStore
    key: str
    known: dict[str, Memory] = field(default_factory=dict)
    steps: dict[int, SessionSteps] = field(default_factory=dict)

    async def follow(self, begin: list[str], next_: Callable[[Memory], Iterable[str]]) -> None:
        """Follow memories in one direction, level by level."""
        level, walked = begin, set[str]()
        while level and len(self.known) < MAX_HISTORY:
            walked |= set(level)
            await self._read([id_ for id_ in level if id_ not in self.known][: MAX_HISTORY - len(self.known)])
            found = {other for id_ in level if id_ in self.known for other in next_(self.known[id_])}
            level = sorted(found - walked)

    def predecessors(self, memory: Memory) -> Iterator[str]:
        """Those that a memory superseded when it was born, and its repetitions, which were born superseded by it."""
        yield from (note.by for note in memory.reinforced)
        own = self.steps.get(memory.session)
        for step in own.steps if own else ():
            if step.kind is ChangeKind.SUPERSEDED and step.by == memory.memory_id:
                yield step.memory_id

    async def _read(self, ids: Sequence[str]) -> None:
        fresh = await read_memories(self.store, self.key, ids)
        self.known |= {memory.memory_id: memory for memory in fresh}
        sessions = {session for memory in fresh for session in _sessions_of(memory)} - self.steps.keys()
        self.steps |= await read_steps(self.store, self.key, sorted(sessions))


def _successors(memory: Memory) -> Iterator[str]:
    if memory.ending is not None and memory.ending.by is not None:
        yield memory.ending.by


def _sessions_of(memory: Memory) -> set[int]:
    """The sessions that changed a memory."""
    notes = (*memory.reinforced, *memory.suspected, *((memory.ending,) if memory.ending else ()))
    return {memory.session, *(note.session for note in notes)}
