"""The lifecycle of a memory: all transitions in one place, each one-way and with a cause.

A memory is current until another one supersedes it or it is retired. Later evidence reinforces it; possible
contradictions are recorded as suspicions. A successor is current when it takes over, so chains of successors have no
cycles.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.memory import Change, ChangeKind, Ending, Memory, MemoryStatus, Reinforcement, Suspicion

MAX_NOTES = 64
"""Maximum of reinforcements, and of suspicions, kept with a memory: the latest; the change feed has all."""


ENDED = "it does not hold any more"
"""The reason of an ending for which the judge has given none."""


class ForbiddenTransition(ValueError):
    """A transition of a memory that has ended or is unknown, or by one that is not current."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason for a transition, its time, and the memory that causes it."""

    at: datetime
    """Event time."""
    because: str
    by: str | None = None
    """The id of the memory that causes it."""
    session: int | None = None
    """The session in which it takes effect; `None` means the one that is applied."""


class Lifecycle:
    """The memories that one session reads or changes, and all changes in order."""

    def __init__(self, session: int, known: Iterable[Memory] = ()) -> None:
        self._session = session
        self._memories = {memory.memory_id: memory for memory in known}
        self._loaded = dict(self._memories)
        self._changes: list[Change] = []
        self._added: set[str] = set()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes so far, in order."""
        return tuple(self._changes)

    @property
    def touched(self) -> list[Memory]:
        """The changed memories in their latest state, in the order of their first change."""
        return [self._memories[id_] for id_ in dict.fromkeys(change.memory.memory_id for change in self._changes)]

    @property
    def current(self) -> list[Memory]:
        """The loaded memories that are current, oldest first."""
        return sorted((m for m in self._memories.values() if m.ending is None), key=lambda memory: memory.order)

    def superseded_by(self, memory_id: str) -> list[str]:
        """The ids of the loaded memories that this memory superseded, oldest first."""
        ended = (m for m in self._memories.values() if m.ending is not None and m.ending.by == memory_id)
        return [memory.memory_id for memory in sorted(ended, key=lambda memory: memory.order)]

    def was_added(self, memory_id: str) -> bool:
        """Whether the memory was added in this session."""
        return memory_id in self._added

    def load(self, memories: Iterable[Memory]) -> None:
        """Load stored memories of earlier sessions; those already loaded stay unchanged."""
        for memory in memories:
            self._memories.setdefault(memory.memory_id, memory)
            self._loaded.setdefault(memory.memory_id, memory)

    def get(self, memory_id: str) -> Memory | None:
        """The latest state of a memory; `None` if it is not loaded."""
        return self._memories.get(memory_id)

    def loaded(self, memory_id: str) -> Memory | None:
        """The stored state of a memory, before this session's changes; `None` for one that it has added."""
        return None if memory_id in self._added else self._loaded.get(memory_id)

    def is_current(self, memory_id: str) -> bool:
        """Whether the memory is loaded and current."""
        memory = self._memories.get(memory_id)
        return memory is not None and memory.ending is None

    def add(self, memory: Memory, because: str = "") -> None:
        """Add a new memory; does nothing if it is known. Raises `ForbiddenTransition` if it has ended."""
        if memory.memory_id in self._memories:
            return
        if memory.ending is not None:
            raise ForbiddenTransition(f"memory {memory.memory_id} must be current when it is added")
        self._added.add(memory.memory_id)
        self._record(ChangeKind.ADDED, memory, because)

    def supersede(self, memory_id: str, cause: Cause) -> None:
        """End a memory in favour of ``cause.by``; raises `ForbiddenTransition` if that is not current."""
        self._end(memory_id, MemoryStatus.SUPERSEDED, cause)

    def retire(self, memory_id: str, cause: Cause) -> None:
        """End a memory without a successor; raises `ForbiddenTransition` as `supersede` does."""
        self._end(memory_id, MemoryStatus.RETIRED, Cause(cause.at, cause.because or ENDED))

    def reinforce(self, memory_id: str, cause: Cause) -> None:
        """Record ``cause.by`` as further evidence; raises `ForbiddenTransition` if the memory has ended."""
        memory = self._current(memory_id)
        by = _needed(cause, memory)
        if any(known.by == by for known in memory.reinforced):
            return
        note = Reinforcement(by=by, session=self._session, at=cause.at)
        kept = (*memory.reinforced, note)[-MAX_NOTES:]
        self._record(ChangeKind.REINFORCED, memory.model_copy(update={"reinforced": kept}), cause.because)

    def suspect(self, memory_id: str, cause: Cause) -> None:
        """Record that ``cause.by`` may contradict the memory, which stays current."""
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
        if status is MemoryStatus.SUPERSEDED and not self.is_current(_needed(cause, memory)):
            raise ForbiddenTransition(f"memory {memory_id} cannot be superseded by {cause.by}, which is not current")
        kind = ChangeKind.SUPERSEDED if status is MemoryStatus.SUPERSEDED else ChangeKind.RETIRED
        self._record(kind, memory.model_copy(update={"ending": ending}), cause.because)

    def _current(self, memory_id: str) -> Memory:
        memory = self._memories.get(memory_id)
        if memory is None:
            raise ForbiddenTransition(f"memory {memory_id} is not known")
        if memory.ending is not None:
            raise ForbiddenTransition(f"memory {memory_id} is {memory.status} and cannot change")
        return memory

    def _record(self, kind: ChangeKind, memory: Memory, because: str) -> None:
        self._memories[memory.memory_id] = memory
        self._changes.append(Change(kind=kind, memory=memory, because=because))


def holding_after(before: Mapping[str, int], life: Lifecycle) -> dict[str, int]:
    """Speaker → number of current memories after the changes of ``life``, given those ``before``."""
    counts = Counter(before)
    for memory in life.touched:
        # an ended memory cannot change, so one that was changed and not added was current before
        counts[memory.speaker] += (memory.ending is None) - (not life.was_added(memory.memory_id))
    return {speaker: count for speaker, count in sorted(counts.items()) if count}


def _needed(cause: Cause, memory: Memory) -> str:
    if cause.by is None or cause.by == memory.memory_id:
        raise ForbiddenTransition(f"memory {memory.memory_id}: the cause must be another memory")
    return cause.by


def as_of(memory: Memory, session: int) -> Memory | None:
    """The memory as of the end of ``session``; `None` if it did not exist yet."""
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
