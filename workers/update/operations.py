"""From the operations of a session's pairs to the memories that hold after it (Keep Me Updated, Algorithm 1). Pure.

The algorithm itself works on sets of ids; what it takes out of a set is superseded or retired here, never destroyed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.workers.update.operator import APPENDED, Operation, OperationVerdict, Verdicts


@dataclass(frozen=True, slots=True)
class Sets:
    """The result of Algorithm 1: which of the old memories and of the new sentences make up the next memory."""

    memories: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a memory or sentence that does not stay; ``by`` is None where it is retired."""

    id: str
    by: str | None
    cause: str
    """The sentence that brings it about; of a sentence that passes, the sentence itself."""
    because: str


@dataclass(frozen=True, slots=True)
class Merge:
    """An old memory and a new sentence that one text stands for from now on."""

    memory: str
    sentence: str
    text: str
    because: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """A sentence that says again what a memory says that stays."""

    memory: str
    sentence: str
    because: str


@dataclass(frozen=True, slots=True)
class AppliedOperations:
    """Everything that a session's operations bring about, each list in the order of application."""

    ended: tuple[Fate, ...]
    """Old memories."""
    dropped: tuple[Fate, ...]
    """New sentences."""
    repeated: tuple[Repetition, ...]
    fusions: tuple[Merge, ...]
    suspected: tuple[Repetition, ...]
    """Memories that stay, with what may contradict them: a sentence that stays, or the memory that it repeats."""


def next_memory(memories: Sequence[str], sentences: Sequence[str], verdicts: Verdicts) -> Sets:
    """Algorithm 1 as it stands in the paper; a fusion counts as APPEND here.

    First every m with a REPLACE or DELETE goes, and every s with a DELETE; then every s that a remaining m passes.
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
    return Sets(left, tuple(s for s in sentences if s not in dropped))


def settle(memories: Sequence[str], sentences: Sequence[str], verdicts: Verdicts) -> AppliedOperations:
    """What Algorithm 1 takes away, mapped to the lifecycle, and what fusion and suspicion add.

    A memory that a DELETE ends is retired, and so is the sentence. A replaced one is superseded by the first sentence
    that stays; where none stays, by the memory that such a sentence repeats; where all were deleted, it is retired.
    """
    sets = next_memory(memories, sentences, verdicts)
    kept, stays = set(sets.memories), set(sets.sentences)
    passing = {
        s: [m for m in sets.memories if _operation(verdicts, m, s) is Operation.PASS]
        for s in sentences
        if s not in stays and not _with(verdicts, memories, s, Operation.DELETE)
    }
    fusions = _fusions(sets, verdicts)
    return AppliedOperations(
        ended=tuple(_end_of(m, sentences, stays, passing, verdicts) for m in memories if m not in kept),
        dropped=tuple(_drop_of(s, memories, passing, verdicts) for s in sentences if s not in stays),
        repeated=tuple(Repetition(m, s, verdicts[m, s].because) for s, olds in passing.items() for m in olds),
        fusions=fusions,
        suspected=_suspected(sets, fusions, passing, verdicts),
    )


def _operation(verdicts: Verdicts, m: str, s: str) -> Operation:
    return verdicts.get((m, s), APPENDED).operation


def _with(verdicts: Verdicts, memories: Sequence[str], s: str, wanted: Operation) -> list[OperationVerdict]:
    return [verdicts[m, s] for m in memories if _operation(verdicts, m, s) is wanted]


def _end_of(
    m: str, sentences: Sequence[str], stays: set[str], passing: dict[str, list[str]], verdicts: Verdicts
) -> Fate:
    deleting = [s for s in sentences if _operation(verdicts, m, s) is Operation.DELETE]
    if deleting:
        return Fate(m, None, deleting[0], verdicts[m, deleting[0]].because)
    replacing = [s for s in sentences if _operation(verdicts, m, s) is Operation.REPLACE]
    for s in replacing:
        if s in stays:
            return Fate(m, s, s, verdicts[m, s].because)
    for s in replacing:
        if passing.get(s):
            return Fate(m, passing[s][0], s, verdicts[m, s].because)
    return Fate(m, None, replacing[0], verdicts[m, replacing[0]].because)


def _drop_of(s: str, memories: Sequence[str], passing: dict[str, list[str]], verdicts: Verdicts) -> Fate:
    if s in passing:
        return Fate(s, passing[s][0], s, verdicts[passing[s][0], s].because)
    return Fate(s, None, s, _with(verdicts, memories, s, Operation.DELETE)[0].because)


def _fusions(sets: Sets, verdicts: Verdicts) -> tuple[Merge, ...]:
    """The fusions among what stays; each memory and each sentence takes part in one, the first, at most."""
    found: list[Merge] = []
    taken: set[str] = set()
    for s in sets.sentences:
        for m in sets.memories:
            verdict = verdicts.get((m, s), APPENDED)
            if verdict.operation is Operation.FUSE and not {m, s} & taken:
                found.append(Merge(m, s, verdict.fused, verdict.because))
                taken |= {m, s}
    return tuple(found)


def _suspected(
    sets: Sets, fusions: Sequence[Merge], passing: dict[str, list[str]], verdicts: Verdicts
) -> tuple[Repetition, ...]:
    fused = {id_ for fusion in fusions for id_ in (fusion.memory, fusion.sentence)}
    tellers = {**{s: s for s in sets.sentences}, **{s: olds[0] for s, olds in passing.items() if olds}}
    return tuple(
        Repetition(m, teller, verdicts[m, s].because)
        for s, teller in tellers.items()
        for m in sets.memories
        if verdicts.get((m, s), APPENDED).suspect and m != teller and not {m, teller} & fused
    )
