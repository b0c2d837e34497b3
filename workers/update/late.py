"""A session that comes after its turn: it may add, and never supersede what is newer. Pure.

Its sentences are judged like all others, but nothing that holds gives way to them: a sentence that a memory repeats,
or that a newer one says the later state of, is superseded at once; every other one is added. A rebuild puts the
session in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunoe.schemas.events import Insight, InsightKind
from eunoe.schemas.memory import Memory
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.operator import APPENDED, Operation, OperationPair, OperationVerdict

Verdicts = Mapping[tuple[str, str], OperationVerdict]


@dataclass(frozen=True, slots=True)
class LateVerdicts:
    """What the verdicts of a late session's pairs come to."""

    kept: Verdicts
    """By the ids of memory and sentence: PASS or APPEND."""
    outdated: Mapping[str, tuple[Memory, str]]
    """Sentence id → the newer memory that says what has become of it, and why."""


def as_told(pair: OperationPair) -> OperationPair:
    """The pair in the order of the log: a memory of a later session is the new one of the two."""
    return OperationPair(pair.new, pair.old) if pair.old.session > pair.new.session else pair


def late_verdicts(pairs: Sequence[OperationPair], verdicts: Verdicts) -> LateVerdicts:
    """``pairs`` are of a memory that holds and a sentence; ``verdicts`` are by the ids of the pairs as told."""
    kept: dict[tuple[str, str], OperationVerdict] = {}
    outdated: dict[str, tuple[Memory, str]] = {}
    for pair in pairs:
        verdict = verdicts.get(as_told(pair).ids, APPENDED)
        is_newer = pair.old.session > pair.new.session
        if is_newer and verdict.operation is Operation.REPLACE:
            outdated.setdefault(pair.new.memory_id, (pair.old, verdict.because))
        passes = verdict.operation is Operation.PASS
        kept[pair.ids] = verdict if passes else OperationVerdict(Operation.APPEND, verdict.because)
    return LateVerdicts(kept, outdated)


def add_outdated(life: Lifecycle, sentences: Sequence[Memory], outdated: Mapping[str, tuple[Memory, str]]) -> None:
    """The sentences that a newer memory has overtaken: they held until its session."""
    for sentence in sentences:
        if sentence.memory_id in outdated:
            newer, because = outdated[sentence.memory_id]
            life.add(sentence)
            life.supersede(sentence.memory_id, Cause(newer.at, because, newer.memory_id, newer.session))


def without_claims(insight: Insight) -> Insight:
    """The insight of a late session: it replaces nothing any more."""
    if insight.kind is not InsightKind.UPDATED:
        return insight
    return insight.model_copy(update={"kind": InsightKind.NEW, "replaces": ()})
