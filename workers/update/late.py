"""Late sessions: they may add memories, but never supersede newer ones.

Their sentences are judged like all others, but no current memory is replaced by them. A sentence that repeats a memory,
or that a newer one has made outdated, is superseded at once; every other one is added. A rebuild applies the session in
its order.
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
    """The verdicts of a late session's pairs, restricted to what a late session may do."""

    kept: Verdicts
    """By the ids of memory and sentence: PASS or APPEND only."""
    outdated: Mapping[str, tuple[Memory, str]]
    """Sentence id → (the newer memory that replaces it, the reason)."""


def in_log_order(pair: OperationPair) -> OperationPair:
    """The pair in log order: the memory of the later session is the new one."""
    return OperationPair(pair.new, pair.old) if pair.old.session > pair.new.session else pair


def late_verdicts(pairs: Sequence[OperationPair], verdicts: Verdicts) -> LateVerdicts:
    """Restrict verdicts to PASS and APPEND, and collect the outdated sentences.

    ``pairs``: a current memory and a sentence each; ``verdicts`` are by the ids of the pairs in log order.
    """
    kept: dict[tuple[str, str], OperationVerdict] = {}
    outdated: dict[str, tuple[Memory, str]] = {}
    for pair in pairs:
        verdict = verdicts.get(in_log_order(pair).ids, APPENDED)
        is_newer = pair.old.session > pair.new.session
        if is_newer and verdict.operation is Operation.REPLACE:
            outdated.setdefault(pair.new.memory_id, (pair.old, verdict.because))
        passes = verdict.operation is Operation.PASS
        kept[pair.ids] = verdict if passes else OperationVerdict(Operation.APPEND, verdict.because)
    return LateVerdicts(kept, outdated)


def add_outdated(life: Lifecycle, sentences: Sequence[Memory], outdated: Mapping[str, tuple[Memory, str]]) -> None:
    """Add the outdated sentences, each superseded since the session of its newer memory."""
    for sentence in sentences:
        if sentence.memory_id in outdated:
            newer, because = outdated[sentence.memory_id]
            life.add(sentence)
            life.supersede(sentence.memory_id, Cause(newer.at, because, newer.memory_id, newer.session))


def without_claims(insight: Insight) -> Insight:
    """The insight without the memories it would replace, for a late session."""
    if insight.kind is InsightKind.NEW:
        return insight
    return insight.model_copy(update={"kind": InsightKind.NEW, "replaces": ()})
