"""What may become of a memory, in one place: every transition is one-way and has a cause. Pure.

A memory is current until another one supersedes it or it is retired; later evidence reinforces it, and what may
contradict it is noted as a suspicion. A successor holds when it takes over, so no chain of successors comes back.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.memory import Change, ChangeKind, Ending, Memory, MemoryStatus, Reinforcement, Suspicion

MAX_NOTES = 64
"""Reinforcements, and suspicions, that one memory keeps: the latest; the change feed keeps all."""


class ForbiddenTransition(ValueError):
    """Raised when a memory that has ended should end otherwise, or by something that does not hold."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something happens to a memory, and since when."""

    at: datetime
    """Event time."""
    because: str
    by: str | None = None
    """The memory that brings it about."""
    session: int | None = None
    """The session since when it is so; None: the one that is applied."""


class Lifecycle:
    """The memories that one session touches, and every change of theirs in order."""

    def __init__(self, session: int, known: Iterable[Memory] = ()) -> None:
        self._session = session
        self._memories = {memory.memory_id: memory for memory in known}
        self._changes: list[Change] = []
        self._added: set[str] = set()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes so far, in the order of application."""
        return tuple(self._changes)

    @property
    def touched(self) -> list[Memory]:
        """The memories that changed, as they are now, in the order of their first change."""
        return [self._memories[id_] for id_ in dict.fromkeys(change.memory.memory_id for change in self._changes)]

    @property
    def holding(self) -> list[Memory]:
        """The known memories that hold, oldest first."""
        return sorted((m for m in self._memories.values() if m.ending is None), key=lambda memory: memory.order)

    def superseded_by(self, memory_id: str) -> list[str]:
        """The ids of the known memories that a memory took over from, oldest first."""
        ended = (m for m in self._memories.values() if m.ending is not None and m.ending.by == memory_id)
        return [memory.memory_id for memory in sorted(ended, key=lambda memory: memory.order)]

    def is_own(self, memory_id: str) -> bool:
        """True for a memory that was added here."""
        return memory_id in self._added

    def learn(self, memories: Iterable[Memory]) -> None:
        """Memories of earlier sessions, as stored; one that is known already stays as it is."""
        for memory in memories:
            self._memories.setdefault(memory.memory_id, memory)

    def get(self, memory_id: str) -> Memory | None:
        """A memory as it is now."""
        return self._memories.get(memory_id)

    def holds(self, memory_id: str) -> bool:
        """True where the memory is known and current."""
        memory = self._memories.get(memory_id)
        return memory is not None and memory.ending is None

    def add(self, memory: Memory, because: str = "") -> None:
        """A new memory; nothing happens where it was added before."""
        if memory.memory_id in self._memories:
            return
        if memory.ending is not None:
            raise ForbiddenTransition(f"memory {memory.memory_id} must be current when it is added")
        self._added.add(memory.memory_id)
        self._record(ChangeKind.ADDED, memory, because)

    def supersede(self, memory_id: str, cause: Cause) -> None:
        """``cause.by`` says what holds from now on. Raises `ForbiddenTransition` where that does not hold itself."""
        self._end(memory_id, MemoryStatus.SUPERSEDED, cause)

    def retire(self, memory_id: str, cause: Cause) -> None:
        """The memory is over, and nothing takes its place. Raises `ForbiddenTransition` as `supersede` does."""
        self._end(memory_id, MemoryStatus.RETIRED, Cause(cause.at, cause.because))

    def reinforce(self, memory_id: str, cause: Cause) -> None:
        """``cause.by`` is further evidence; a memory that has ended is not revived."""
        memory = self._current(memory_id)
        by = _needed(cause, memory)
        if any(known.by == by for known in memory.reinforced):
            return
        note = Reinforcement(by=by, session=self._session, at=cause.at)
        kept = (*memory.reinforced, note)[-MAX_NOTES:]
        self._record(ChangeKind.REINFORCED, memory.model_copy(update={"reinforced": kept}), cause.because)

    def suspect(self, memory_id: str, cause: Cause) -> None:
        """``cause.by`` may contradict the memory, which stays as current as it is."""
        memory = self._current(memory_id)
        by = _needed(cause, memory)
        if any(known.by == by for known in memory.suspected):
            return
        note = Suspicion(by=by, session=self._session, because=cause.because)
        kept = (*memory.suspected, note)[-MAX_NOTES:]
        self._record(ChangeKind.SUSPECTED, memory.model_copy(update={"suspected": kept}), cause.because)

    def _end(self, memory_id: str, status: MemoryStatus, cause: Cause) -> None:
        session = self._session if cause.session is None else cause.session
        ending = Ending.model_validate(
            {"status": status, "by": cause.by, "session": session, "at": cause.at, "because": cause.because}
        )
        memory = self._memories.get(memory_id)
        if memory is not None and memory.ending == ending:
            return
        memory = self._current(memory_id)
        if status is MemoryStatus.SUPERSEDED and not self.holds(_needed(cause, memory)):
            raise ForbiddenTransition(f"memory {memory_id} cannot be superseded by {cause.by}, which does not hold")
        kind = ChangeKind.SUPERSEDED if status is MemoryStatus.SUPERSEDED else ChangeKind.RETIRED
        self._record(kind, memory.model_copy(update={"ending": ending}), cause.because)

    def _current(self, memory_id: str) -> Memory:
        memory = self._memories.get(memory_id)
        if memory is None:
            raise ForbiddenTransition(f"memory {memory_id} is not known")
        if memory.ending is not None:
            raise ForbiddenTransition(f"memory {memory_id} is {memory.status}: nothing more becomes of it")
        return memory

    def _record(self, kind: ChangeKind, memory: Memory, because: str) -> None:
        self._memories[memory.memory_id] = memory
        self._changes.append(Change(kind=kind, memory=memory, because=because))


def holding_after(before: Mapping[str, int], life: Lifecycle) -> dict[str, int]:
    """Speaker → memories that hold, once what ``life`` did to those that held ``before`` is applied."""
    counts = Counter(before)
    for memory in life.touched:
        # nothing becomes of a memory that has ended: what was touched and is not new did hold
        counts[memory.speaker] += (memory.ending is None) - (not life.is_own(memory.memory_id))
    return {speaker: count for speaker, count in sorted(counts.items()) if count}


def _needed(cause: Cause, memory: Memory) -> str:
    if cause.by is None or cause.by == memory.memory_id:
        raise ForbiddenTransition(f"memory {memory.memory_id}: another memory must bring this about")
    return cause.by


def as_of(memory: Memory, session: int) -> Memory | None:
    """The memory as it was once ``session`` was applied; None where it was not born yet."""
    if memory.session > session:
        return None
    ended = memory.ending is not None and memory.ending.session <= session
    return memory.model_copy(
        update={
            "ending": memory.ending if ended else None,
            "reinforced": tuple(note for note in memory.reinforced if note.session <= session),
            "suspected": tuple(note for note in memory.suspected if note.session <= session),
        }
    )
