"""Applies a session's insights and summary sentences to memories through their lifecycle."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.events import Insight, InsightKind, Provenance
from eunoe.schemas.memory import Memory
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.memories import merged, normalized
from eunoe.workers.update.operations import AppliedOperations, Merge, Removal, Repetition, resolve_operations
from eunoe.workers.update.operator import APPENDED, Operation, OperationPair, OperationVerdict, Verdicts

SAME_TEXT = "the same words"
REDUNDANT = "an insight says it again"
UPDATED = "an insight says what has become of it"
RESTATES = "says the same as a memory that an insight has updated"
REACHED = "an insight has updated a memory that is linked to it"


@dataclass(frozen=True, slots=True)
class Proposal:
    """An insight as a memory, and the older memories that only restate what it replaces."""

    memory: Memory
    insight: Insight
    restating: tuple[str, ...] = ()
    """Ids of linked memories that only restate one that the insight replaces."""


def apply_proposals(life: Lifecycle, proposals: Iterable[Proposal]) -> None:
    """Apply insights in order: add a new one, drop a redundant one, let an updating one replace what it names.

    Only current memories of the same speaker are replaced. An insight that repeats a current memory word for word
    reinforces it.
    """
    for proposal in proposals:
        life.add(proposal.memory, f"insight: {proposal.insight.kind}")
        named = [id_ for id_ in dict.fromkeys(proposal.insight.replaces) if _about_the_same(life, id_, proposal.memory)]
        said = _said_by(life, proposal.memory)
        if proposal.insight.kind is InsightKind.REDUNDANT or (said and said not in named):
            _repeat(life, proposal.memory, [*([said] if said else []), *named])
        elif proposal.insight.kind is InsightKind.UPDATED:
            _replace(life, proposal, named)


def _about_the_same(life: Lifecycle, id_: str, memory: Memory) -> bool:
    known = life.get(id_)
    return (
        known is not None
        and life.is_current(id_)
        and known.speaker == memory.speaker
        and known.memory_id != memory.memory_id
    )


def _said_by(life: Lifecycle, memory: Memory) -> str | None:
    """The id of the current memory of the same speaker with the same words; `None` if there is none."""
    wanted = normalized(memory.text)
    same = (known for known in life.current if known.speaker == memory.speaker and normalized(known.text) == wanted)
    return next((known.memory_id for known in same if known.memory_id != memory.memory_id), None)


def _repeat(life: Lifecycle, memory: Memory, named: Sequence[str]) -> None:
    """Supersede a redundant insight by what it repeats; keep it if it names nothing."""
    targets = list(dict.fromkeys(named))
    if not targets:
        return
    life.supersede(memory.memory_id, Cause(memory.at, REDUNDANT, targets[0]))
    for id_ in targets:
        life.reinforce(id_, Cause(memory.at, REDUNDANT, memory.memory_id))


def _replace(life: Lifecycle, proposal: Proposal, named: Sequence[str]) -> None:
    memory = proposal.memory
    for id_ in named:
        life.supersede(id_, Cause(memory.at, UPDATED, memory.memory_id))
    for id_ in proposal.restating if named else ():
        if _about_the_same(life, id_, memory):
            life.supersede(id_, Cause(memory.at, RESTATES, memory.memory_id))


def apply_reached(life: Lifecycle, pairs: Sequence[OperationPair], verdicts: Verdicts) -> None:
    """Supersede linked memories that an updating insight replaces too, as judged.

    Only REPLACE has an effect: the insight is not a sentence of the summary.
    """
    for pair in pairs:
        verdict = verdicts.get(pair.ids, APPENDED)
        if (
            verdict.operation is Operation.REPLACE
            and life.is_current(pair.old.memory_id)
            and life.is_current(pair.new.memory_id)
        ):
            because = f"{REACHED}: {verdict.because}" if verdict.because else REACHED
            life.supersede(pair.old.memory_id, Cause(pair.new.at, because, pair.new.memory_id))


def same_text(pair: OperationPair) -> bool:
    """Whether both have the same words."""
    return normalized(pair.old.text) == normalized(pair.new.text)


def verdicts_of(
    pairs: Sequence[OperationPair], judged: Mapping[tuple[str, str], OperationVerdict]
) -> dict[tuple[str, str], OperationVerdict]:
    """The judged verdicts by pair ids; pairs with the same words are always PASS."""
    repeated = {pair.ids: OperationVerdict(Operation.PASS, SAME_TEXT) for pair in pairs if same_text(pair)}
    return {**judged, **repeated}


def apply_summary(
    life: Lifecycle,
    sentences: Sequence[Memory],
    pairs: Sequence[OperationPair],
    verdicts: Mapping[tuple[str, str], OperationVerdict],
) -> AppliedOperations:
    """Add the sentences, apply Algorithm 1 over the verdicts, and return the applied operations.

    Merges are left to `apply_merges`.
    """
    for sentence in sentences:
        life.add(sentence)
    olds = sorted({pair.old.memory_id: pair.old for pair in pairs}.values(), key=lambda memory: memory.order)
    applied = resolve_operations([m.memory_id for m in olds], [s.memory_id for s in sentences], verdicts)
    times = {sentence.memory_id: sentence.at for sentence in sentences}
    for removal in applied.ended:
        _end(life, removal, times)
    for removal in applied.dropped:
        _end(life, removal, times)
    for repetition in applied.repeated:
        life.reinforce(repetition.memory, Cause(times[repetition.sentence], repetition.because, repetition.sentence))
    for repetition in applied.suspected:
        _suspect(life, repetition)
    return applied


def _suspect(life: Lifecycle, repetition: Repetition) -> None:
    """Record a suspicion against a memory of an earlier session."""
    old, by = life.get(repetition.memory), life.get(repetition.sentence)
    if old is not None and by is not None and old.session < by.session:
        life.suspect(old.memory_id, Cause(by.at, repetition.because, by.memory_id))


def _end(life: Lifecycle, removal: Removal, times: Mapping[str, datetime]) -> None:
    cause = Cause(times[removal.cause], removal.because, removal.by)
    if removal.by is None:
        life.retire(removal.id, cause)
    else:
        life.supersede(removal.id, cause)


def apply_merges(life: Lifecycle, merges: Sequence[Merge], key: str, first: int, made_by: Provenance) -> None:
    """Add one memory for each merge and supersede both of its parts.

    ``first`` is the index in the session of the first added memory. Raises ``KeyError`` if a part is unknown.
    """
    for number, merge in enumerate(merges):
        old, new = life.get(merge.memory), life.get(merge.sentence)
        if old is None or new is None:
            raise KeyError(f"a fusion of unknown memories: {merge.memory}, {merge.sentence}")
        successor = merged(old, new, merge.text, (key, number, first + number), made_by)
        life.add(successor, merge.because)
        for part in (old, new):
            life.supersede(part.memory_id, Cause(successor.at, merge.because, successor.memory_id))
