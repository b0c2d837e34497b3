"""Applying a session's insights and sentences to memories through their lifecycle. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.events import Insight, InsightKind, Provenance
from eunoe.schemas.memory import Memory
from eunoe.workers.update.lifecycle import Cause, Lifecycle
from eunoe.workers.update.memories import fused, plain
from eunoe.workers.update.operations import AppliedOperations, Fate, Merge, Repetition, settle
from eunoe.workers.update.operator import APPENDED, Operation, OperationPair, OperationVerdict, Verdicts

SAME_TEXT = "the same words"
REDUNDANT = "an insight says it again"
UPDATED = "an insight says what has become of it"
RESTATES = "says the same as a memory that an insight has updated"
REACHED = "an insight has updated a memory that is linked to it"


@dataclass(frozen=True, slots=True)
class Proposal:
    """An insight as a memory, and the memories of earlier words that matter to it."""

    memory: Memory
    insight: Insight
    restating: tuple[str, ...] = ()
    """Ids of linked memories that only say the same as one that it replaces."""


def apply_proposals(life: Lifecycle, proposals: Iterable[Proposal]) -> None:
    """One after the other: a new insight is added, a redundant one passes, an updated one replaces what it names.

    Only memories of its speaker that still hold are replaced; one whose words a memory says that holds passes.
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
        and life.holds(id_)
        and known.speaker == memory.speaker
        and known.memory_id != memory.memory_id
    )


def _said_by(life: Lifecycle, memory: Memory) -> str | None:
    """The memory that holds and says the very same."""
    wanted = plain(memory.text)
    same = (known for known in life.holding if known.speaker == memory.speaker and plain(known.text) == wanted)
    return next((known.memory_id for known in same if known.memory_id != memory.memory_id), None)


def _repeat(life: Lifecycle, memory: Memory, named: Sequence[str]) -> None:
    """Where it names nothing that it repeats, a redundant insight stays: nothing is lost."""
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
    """What an insight has superseded takes along the linked memories that it replaces too, as was judged.

    Nothing else is done to them: the insight is no sentence of the summary.
    """
    for pair in pairs:
        verdict = verdicts.get(pair.ids, APPENDED)
        if verdict.operation is Operation.REPLACE and life.holds(pair.old.memory_id) and life.holds(pair.new.memory_id):
            because = f"{REACHED}: {verdict.because}" if verdict.because else REACHED
            life.supersede(pair.old.memory_id, Cause(pair.new.at, because, pair.new.memory_id))


def same_text(pair: OperationPair) -> bool:
    """True where both say the very same."""
    return plain(pair.old.text) == plain(pair.new.text)


def verdicts_of(
    pairs: Sequence[OperationPair], judged: Mapping[tuple[str, str], OperationVerdict]
) -> dict[tuple[str, str], OperationVerdict]:
    """What was judged, but the same words always pass."""
    repeated = {pair.ids: OperationVerdict(Operation.PASS, SAME_TEXT) for pair in pairs if same_text(pair)}
    return {**judged, **repeated}


def apply_summary(
    life: Lifecycle,
    sentences: Sequence[Memory],
    pairs: Sequence[OperationPair],
    verdicts: Mapping[tuple[str, str], OperationVerdict],
) -> AppliedOperations:
    """Algorithm 1 over the pairs' verdicts; returns what it came to. Fusions are left to `apply_fusions`."""
    for sentence in sentences:
        life.add(sentence)
    olds = sorted({pair.old.memory_id: pair.old for pair in pairs}.values(), key=lambda memory: memory.order)
    settled = settle([m.memory_id for m in olds], [s.memory_id for s in sentences], verdicts)
    times = {sentence.memory_id: sentence.at for sentence in sentences}
    for fate in settled.ended:
        _end(life, fate, times)
    for fate in settled.dropped:
        _end(life, fate, times)
    for noted in settled.repeated:
        life.reinforce(noted.memory, Cause(times[noted.sentence], noted.because, noted.sentence))
    for noted in settled.suspected:
        _suspect(life, noted)
    return settled


def _suspect(life: Lifecycle, noted: Repetition) -> None:
    """Only what is newer contradicts: of one session's memories none does."""
    old, by = life.get(noted.memory), life.get(noted.sentence)
    if old is not None and by is not None and old.session < by.session:
        life.suspect(old.memory_id, Cause(by.at, noted.because, by.memory_id))


def _end(life: Lifecycle, fate: Fate, times: Mapping[str, datetime]) -> None:
    cause = Cause(times[fate.cause], fate.because, fate.by)
    if fate.by is None:
        life.retire(fate.id, cause)
    else:
        life.supersede(fate.id, cause)


def apply_fusions(life: Lifecycle, fusions: Sequence[Merge], key: str, first: int, made_by: Provenance) -> None:
    """Each fusion adds one memory, which supersedes both that it was made of; ``first``: its index in the session."""
    for number, fusion in enumerate(fusions):
        old, new = life.get(fusion.memory), life.get(fusion.sentence)
        if old is None or new is None:
            raise KeyError(f"a fusion of unknown memories: {fusion.memory}, {fusion.sentence}")
        whole = fused(old, new, fusion.text, (key, number, first + number), made_by)
        life.add(whole, fusion.because)
        for part in (old, new):
            life.supersede(part.memory_id, Cause(whole.at, fusion.because, whole.memory_id))
