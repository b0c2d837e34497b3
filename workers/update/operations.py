"""Resolves a session's verdicts into the next memory (Keep Me Updated, Algorithm 1).

The algorithm itself works on sets of ids. What it removes from a set is superseded or retired here, never deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.workers.update.operator import APPENDED, Operation, OperationVerdict, Verdicts


@dataclass(frozen=True, slots=True)
class Survivors:
    """The result of Algorithm 1: the old memories and new sentences that stay."""

    memories: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """The end of a memory or sentence; ``by`` is its successor, `None` if it is retired."""

    id: str
    by: str | None
    cause: str
    """The sentence that causes it; for a sentence that passes, the sentence itself."""
    because: str


@dataclass(frozen=True, slots=True)
class Merge:
    """An old memory and a new sentence that are replaced by one text (operation FUSE)."""

    memory: str
    sentence: str
    text: str
    because: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """A sentence that repeats (or may contradict) a memory that stays."""

    memory: str
    sentence: str
    because: str


@dataclass(frozen=True, slots=True)
class AppliedOperations:
    """All effects of a session's operations, each list in the order of application."""

    ended: tuple[Removal, ...]
    """Removed old memories."""
    dropped: tuple[Removal, ...]
    """Removed new sentences."""
    repeated: tuple[Repetition, ...]
    merges: tuple[Merge, ...]
    suspected: tuple[Repetition, ...]
    """Memories that stay, each with what may contradict it: a sentence that stays, or the memory that repeats it."""


def next_memory(memories: Sequence[str], sentences: Sequence[str], verdicts: Verdicts) -> Survivors:
    """Algorithm 1 as printed in the paper; FUSE counts as APPEND.

    First remove every m with a REPLACE or DELETE and every s with a DELETE; then every s that a remaining m passes.
    """
    gone: set[str] = set()
    dropped: set[str] = set()
    for m in memories:
        for s in sentences:
            operation = _operation(verdicts, m, s)
            if operation in {Operation.REPLACE, Operation.DELETE}:
                gone.add(m)
            if operation is Operation.DELETE:
                dropped.add(s)
    left = tuple(m for m in memories if m not in gone)
    for s in sentences:
        if any(_operation(verdicts, m, s) is Operation.PASS for m in left):
            dropped.add(s)
    return Survivors(left, tuple(s for s in sentences if s not in dropped))


def resolve_operations(memories: Sequence[str], sentences: Sequence[str], verdicts: Verdicts) -> AppliedOperations:
    """Map the removals of Algorithm 1 to the lifecycle, and add merges and suspicions.

    DELETE retires both memory and sentence. A replaced memory is superseded by the first of its sentences that stays;
    if none stays, by the memory that such a sentence repeats; if all were deleted, it is retired.
    """
    survivors = next_memory(memories, sentences, verdicts)
    kept, stays = set(survivors.memories), set(survivors.sentences)
    passing = {
        s: [m for m in survivors.memories if _operation(verdicts, m, s) is Operation.PASS]
        for s in sentences
        if s not in stays and not _with(verdicts, memories, s, Operation.DELETE)
    }
    merges = _merges(survivors, verdicts)
    return AppliedOperations(
        ended=tuple(_end_of(m, sentences, stays, passing, verdicts) for m in memories if m not in kept),
        dropped=tuple(_drop_of(s, memories, passing, verdicts) for s in sentences if s not in stays),
        repeated=tuple(Repetition(m, s, verdicts[m, s].because) for s, olds in passing.items() for m in olds),
        merges=merges,
        suspected=_suspected(survivors, merges, passing, verdicts),
    )


def _operation(verdicts: Verdicts, m: str, s: str) -> Operation:
    return verdicts.get((m, s), APPENDED).operation


def _with(verdicts: Verdicts, memories: Sequence[str], s: str, wanted: Operation) -> list[OperationVerdict]:
    return [verdicts[m, s] for m in memories if _operation(verdicts, m, s) is wanted]


def _end_of(
    m: str, sentences: Sequence[str], stays: set[str], passing: dict[str, list[str]], verdicts: Verdicts
) -> Removal:
    deleting = [s for s in sentences if _operation(verdicts, m, s) is Operation.DELETE]
    if deleting:
        return Removal(m, None, deleting[0], verdicts[m, deleting[0]].because)
    replacing = [s for s in sentences if _operation(verdicts, m, s) is Operation.REPLACE]
    for s in replacing:
        if s in stays:
            return Removal(m, s, s, verdicts[m, s].because)
    for s in replacing:
        if passing.get(s):
            return Removal(m, passing[s][0], s, verdicts[m, s].because)
    return Removal(m, None, replacing[0], verdicts[m, replacing[0]].because)


def _drop_of(s: str, memories: Sequence[str], passing: dict[str, list[str]], verdicts: Verdicts) -> Removal:
    if s in passing:
        return Removal(s, passing[s][0], s, verdicts[passing[s][0], s].because)
    return Removal(s, None, s, _with(verdicts, memories, s, Operation.DELETE)[0].because)


def _merges(survivors: Survivors, verdicts: Verdicts) -> tuple[Merge, ...]:
    """The merges among what stays; each memory and each sentence is in at most one, the first."""
    found: list[Merge] = []
    taken: set[str] = set()
    for s in survivors.sentences:
        for m in survivors.memories:
            verdict = verdicts.get((m, s), APPENDED)
            if verdict.operation is Operation.FUSE and not {m, s} & taken:
                found.append(Merge(m, s, verdict.fused, verdict.because))
                taken |= {m, s}
    return tuple(found)


def _suspected(
    survivors: Survivors, merges: Sequence[Merge], passing: dict[str, list[str]], verdicts: Verdicts
) -> tuple[Repetition, ...]:
    merged = {id_ for merge in merges for id_ in (merge.memory, merge.sentence)}
    carriers = {**{s: s for s in survivors.sentences}, **{s: olds[0] for s, olds in passing.items() if olds}}
    return tuple(
        Repetition(m, by, verdicts[m, s].because)
        for s, by in carriers.items()
        for m in survivors.memories
        if verdicts.get((m, s), APPENDED).suspect and m != by and not {m, by} & merged
    )
