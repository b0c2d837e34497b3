"""Applies a session's insights and summary sentences to memories through their lifecycle."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.events import Insight, InsightKind, Provenance
from eunoe.schemas.memory import Memory
from eunoe.workers.text.drafts import plain_words
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.memories import FusionPlace, merged, normalized, with_evidence
from eunoe.workers.update.operations import AppliedOperations, Merge, Removal, Repetition, resolve_operations
from eunoe.workers.update.operator import APPENDED, Operation, OperationPair, OperationVerdict, Verdicts

SAME_TEXT = "the same words"
REDUNDANT = "an insight says it again"
MERGED = "an insight says it together with its details"
UPDATED = "an insight says what has become of it"
RENEWED = "it is said again, and ends at another time"
RESTATES = "says the same as a memory that has ended"
REACHED = "a memory that is linked to it has been replaced"


@dataclass(frozen=True, slots=True)
class Proposal:
    """An insight as a memory, and the older memories that only restate what it replaces."""

    memory: Memory
    insight: Insight
    restating: tuple[str, ...] = ()
    """Ids of linked memories that only restate one that the insight replaces."""


def apply_proposals(life: Lifecycle, proposals: Iterable[Proposal]) -> None:
    """Apply insights in order: each is added, and supersedes what it names (CREEM, section 3.2).

    A redundant one merges what it names and so rests on its evidence too; an updating one says what has become of it.
    Only current memories of the same speaker are superseded. An insight that repeats a current memory word for word
    reinforces it; that memory then takes its place. One that ends at another time supersedes it.
    """
    for proposal in proposals:
        kind, memory = proposal.insight.kind, proposal.memory
        named = [id_ for id_ in dict.fromkeys(proposal.insight.replaces) if _about_the_same(life, id_, memory)]
        said = _said_by(life, memory, named)
        if kind is InsightKind.REDUNDANT and said is None:
            memory = with_evidence(memory, [old for id_ in named if (old := life.get(id_)) is not None])
        life.add(memory, f"insight: {kind}")
        if said is not None and (known := life.get(said)) is not None and renews(memory, known):
            life.supersede(said, Cause(memory.at, RENEWED, memory.memory_id))
            named, said = [id_ for id_ in named if id_ != said], None
        if said is not None:
            life.supersede(memory.memory_id, Cause(memory.at, REDUNDANT, said))
            life.reinforce(said, Cause(memory.at, REDUNDANT, memory.memory_id))
        if kind is not InsightKind.NEW:
            _replace(life, proposal, [id_ for id_ in named if id_ != said], said or memory.memory_id)


def _about_the_same(life: Lifecycle, id_: str, memory: Memory) -> bool:
    known = life.get(id_)
    return (
        known is not None
        and life.is_current(id_)
        and known.speaker == memory.speaker
        and known.memory_id != memory.memory_id
    )


def _said_by(life: Lifecycle, memory: Memory, named: Sequence[str]) -> str | None:
    """The id of the current memory of the same speaker with the same words; `None` if there is none.

    Of the ``named`` ones fillers do not count.
    """
    wanted, plain = normalized(memory.text), plain_words(memory.text)
    for known in life.current:
        if known.memory_id == memory.memory_id or known.speaker != memory.speaker:
            continue
        if normalized(known.text) == wanted or (known.memory_id in named and plain_words(known.text) == plain):
            return known.memory_id
    return None


def _replace(life: Lifecycle, proposal: Proposal, named: Sequence[str], by: str) -> None:
    """Supersede the named memories, and those that only restate them, by the memory ``by``."""
    at, because = proposal.memory.at, MERGED if proposal.insight.kind is InsightKind.REDUNDANT else UPDATED
    for id_ in named:
        life.supersede(id_, Cause(at, because, by))
    for id_ in proposal.restating if named else ():
        if id_ != by and _about_the_same(life, id_, proposal.memory):
            life.supersede(id_, Cause(at, RESTATES, by))


def apply_reached(life: Lifecycle, pairs: Sequence[OperationPair], verdicts: Verdicts) -> None:
    """Supersede linked memories that a successor replaces too, as judged; only REPLACE has an effect."""
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
    """The judged verdicts by pair ids; pairs with the same words are always PASS.

    What passes with another end than the old memory replaces it.
    """
    repeated = {pair.ids: OperationVerdict(Operation.PASS, SAME_TEXT) for pair in pairs if same_text(pair)}
    found = {**judged, **repeated}
    for pair in pairs:
        if pair.ids in found and found[pair.ids].operation is Operation.PASS and renews(pair.new, pair.old):
            found[pair.ids] = OperationVerdict(Operation.REPLACE, RENEWED)
    return found


def renews(new: Memory, old: Memory) -> bool:
    """Whether a memory that says the same as an older one ends at another time, or that one has ended already."""
    return old.has_expired(new.at) or (new.expires_at is not None and new.expires_at != old.expires_at)


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


def apply_merges(life: Lifecycle, merges: Sequence[Merge], first: FusionPlace, made_by: Provenance) -> None:
    """Add one memory for each merge and supersede both of its parts.

    ``first``: the place of the first one. Raises ``KeyError`` if a part is unknown.
    """
    for others, merge in enumerate(merges):
        old, new = life.get(merge.memory), life.get(merge.sentence)
        if old is None or new is None:
            raise KeyError(f"a fusion of unknown memories: {merge.memory}, {merge.sentence}")
        successor = merged(old, new, merge.text, first.after(others), made_by)
        life.add(successor, merge.because)
        for part in (old, new):
            life.supersede(part.memory_id, Cause(successor.at, merge.because, successor.memory_id))
