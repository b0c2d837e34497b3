"""Stage `update`: the only writer of memories."""

from collections.abc import Collection as Ids
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from eunoe.schemas.decisions import Decision, Outcome, Park, Point, Put, Scope, Wait, Work, Write
from eunoe.schemas.events import InsightKind, Provenance
from eunoe.schemas.memory import ChangeKind, MemoriesChanged, Memory
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import StateStore, VectorIndex
from eunoe.workers.stores.documents.term_counts import frequency_writes
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.update.applying import (
    Proposal,
    apply_merges,
    apply_proposals,
    apply_reached,
    apply_summary,
    same_text,
    verdicts_of,
)
from eunoe.workers.update.candidate_reader import CandidateReader, LinksMissing
from eunoe.workers.update.candidates import take_fitting
from eunoe.workers.update.carrying import carrying_writes, read_carried
from eunoe.workers.update.consolidation import apply_fusions, is_due, offered
from eunoe.workers.update.dependents import end_restating, unjudged
from eunoe.workers.update.evidence import check_evidence
from eunoe.workers.update.gathering import (
    PROPOSER,
    Gathered,
    arrange,
    lacking_turns,
    missing,
    turns_before,
)
from eunoe.workers.update.late import add_outdated, in_log_order, late_verdicts
from eunoe.workers.update.lifecycle import Lifecycle, holding_after
from eunoe.workers.update.memories import (
    FusionPlace,
    MemoryFrequency,
    MemoryStats,
    SessionSteps,
    build_point,
    memory_writes,
    session_row,
    step_of,
)
from eunoe.workers.update.operator import OperationPair, OperationVerdict, Operator
from eunoe.workers.update.reads import (
    read_memories,
    read_memory_frequencies,
    read_named,
)
from eunoe.workers.update.session_memories import SessionMemories, read_session_memories
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.tables import CHANGES, STATS, TERMS


class UpdateStage:
    """Owns the memories of a conversation, their histories, and their term counts for BM25.

    A session's insights are applied in the order of turns, then its summary by Algorithm 1 (Keep Me Updated, section
    4.3). One judgement covers all pairs. Memories that are no longer true are superseded or retired.
    """

    def __init__(
        self, store: StateStore, index: VectorIndex, embedder: Embedder, operator: Operator, settings: UpdateSettings
    ) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._operator = operator
        self._settings = settings

    async def decide(self, work: Work[Gathered]) -> Outcome:
        """Decide the changed memories as documents and points, and the feed of changes.

        Returns `Park` while events of the session are missing, and `Wait` while links of the last session are needed. A
        skipped session changes memories by its insights only, and says so; a late one only adds.
        """
        lacking = "" if work.late else missing(work.events)
        if lacking:
            return Park(lacking)
        carried = await read_carried(self._store, work.key, turns_before(work.events))
        arranged = arrange(work.events, carried)
        new = await read_session_memories(self._store, work, arranged)
        before = work.number if work.late_after is None else work.late_after + 1
        reader = CandidateReader(self._store, self._index, self._embedder, self._settings, work.key, before)
        try:
            life, made_by = await self._apply(reader, work, new)
        except LinksMissing as missed:
            return Wait(str(missed))
        check_evidence(life, [*(proposal.memory for proposal in new.proposals), *new.sentences])
        decision = await self._decision(work, new, life, made_by)
        return replace(
            decision, writes=(*decision.writes, *carrying_writes(carried, () if work.late else arranged.carried_on))
        )

    async def lost(self, key: str, events: Sequence[Gathered]) -> str | None:
        """The proposals that blend has sent and that have not come; `None` where it may still send them."""
        lacking = lacking_turns(events)
        ledger = await self._store.ledger(Scope(PROPOSER, key))
        sent = [turn for turn in lacking if turn <= ledger.applied and ledger.outbox is None]
        if not sent:
            return None
        return f"{PROPOSER} has applied and sent the proposals of turns {sent[:10]}, and they have not come"

    async def _apply(
        self, reader: CandidateReader, work: Work[Gathered], new: SessionMemories
    ) -> tuple[Lifecycle, Provenance | None]:
        """The session's changes, and the provenance of its operations. Raises `LinksMissing`."""
        life = Lifecycle(work.number)
        memories = [*(proposal.memory for proposal in new.proposals), *new.sentences]
        named = [id_ for proposal in new.proposals for id_ in proposal.insight.replaces]
        await reader.read(life, [*named, *await reader.said_before(memories)])
        apply_proposals(life, [await self._with_restatements(reader, life, proposal) for proposal in new.proposals])
        pairs, are_all = await reader.pairs(life, new.sentences, new.before.holding, new.speakers)
        if work.late:
            return life, await self._add_late(life, new.sentences, pairs)
        reached = take_fitting(pairs, await self._reached(reader, life, new.proposals), self._settings)
        verdicts, made_by = await self._judge([*pairs, *reached])
        if made_by is not None and not made_by.fallback:
            apply_reached(life, reached, verdicts)
        holding = {memory.memory_id for memory in life.current}
        applied = apply_summary(life, new.sentences, [p for p in pairs if life.is_current(p.old.memory_id)], verdicts)
        if applied.merges and made_by is not None:
            apply_merges(life, applied.merges, FusionPlace(work.key, work.number, 0, len(memories)), made_by)
        if self._settings.reach:
            await self._reach_dependents(reader, life, holding, None if are_all else {pair.ids for pair in pairs})
        await self._consolidate(reader, work, new, life, len(applied.merges))
        return life, made_by

    async def _consolidate(
        self, reader: CandidateReader, work: Work[Gathered], new: SessionMemories, life: Lifecycle, merges: int
    ) -> None:
        """Fuse near-identical memories of earlier sessions, every so many memories."""
        added = sum(life.was_added(memory.memory_id) for memory in life.touched)
        every = self._settings.consolidate_every
        if is_due(new.before.memories, new.before.memories + added, every):
            pairs = await reader.alike(life, every, new.before.holding, new.speakers)
            first = FusionPlace(work.key, work.number, merges, added)
            apply_fusions(life, offered(pairs, self._settings.restating), first, new.known_from)

    async def _reach_dependents(
        self, reader: CandidateReader, life: Lifecycle, holding: Ids[str], judged: Ids[tuple[str, str]] | None
    ) -> None:
        """End what depends on the memories among ``holding`` that the summary has ended. Raises `LinksMissing`.

        ``judged``: the pairs that were judged; `None` means all, so that no linked memory is left to ask about.
        """
        ended = [id_ for id_ in sorted(holding) if not life.is_current(id_) and not life.was_added(id_)]
        end_restating(life, ended, self._settings)
        if judged is None or not ended or not self._settings.linked or not self._operator.reads_meaning:
            return
        near = await reader.near(life, ended)
        more = take_fitting((), unjudged(life, near, judged), self._settings)
        if more:
            verdicts, made_by = await self._judge(more)
            if made_by is not None and not made_by.fallback:
                apply_reached(life, more, verdicts)

    async def _add_late(
        self, life: Lifecycle, sentences: Sequence[Memory], pairs: Sequence[OperationPair]
    ) -> Provenance | None:
        """Add the sentences of a late session, which replace no current memory."""
        verdicts, made_by = await self._judge([in_log_order(pair) for pair in pairs])
        found = late_verdicts(pairs, verdicts)
        add_outdated(life, sentences, found.outdated)
        apply_summary(life, [s for s in sentences if s.memory_id not in found.outdated], pairs, found.kept)
        return made_by

    async def _with_restatements(self, reader: CandidateReader, life: Lifecycle, proposal: Proposal) -> Proposal:
        """The proposal with the linked memories that only restate what it replaces."""
        if not self._settings.reach or proposal.insight.kind is not InsightKind.UPDATED:
            return proposal
        own = [id_ for id_ in proposal.insight.replaces if life.is_current(id_)]
        return Proposal(proposal.memory, proposal.insight, tuple(await reader.restating(life, own)))

    async def _reached(
        self, reader: CandidateReader, life: Lifecycle, proposals: Sequence[Proposal]
    ) -> list[OperationPair]:
        """The pairs of linked memories that may restate what an insight has updated; none without a language model."""
        if not self._settings.reach or not self._operator.reads_meaning:
            return []
        updating = [p.memory for p in proposals if p.insight.kind is InsightKind.UPDATED]
        return await reader.reached(life, [memory for memory in updating if life.is_current(memory.memory_id)])

    async def _judge(
        self, pairs: Sequence[OperationPair]
    ) -> tuple[Mapping[tuple[str, str], OperationVerdict], Provenance | None]:
        """The verdicts of all pairs in one judgement; pairs with the same words are not asked about."""
        asked = [pair for pair in pairs if not same_text(pair)]
        if not asked:
            return verdicts_of(pairs, {}), None
        judgement = await self._operator.operate(asked)
        judged = {pair.ids: verdict for pair, verdict in zip(asked, judgement.verdicts, strict=True)}
        return verdicts_of(pairs, judged), judgement.made_by

    async def _decision(
        self, work: Work[Gathered], new: SessionMemories, life: Lifecycle, made_by: Provenance | None
    ) -> Decision:
        summary = arrange(work.events).formed
        brings_news = not work.late and (life.touched or summary is not None)
        after = MemoryStats(
            memories=new.before.memories + sum(life.was_added(memory.memory_id) for memory in life.touched),
            session=work.state_session,
            known_from=new.known_from if brings_news else new.before.known_from,
            speakers=new.speakers,
            holding=holding_after(new.before.holding, life),
        )
        steps = SessionSteps(
            session=work.number,
            known_from=new.known_from,
            steps=(*(new.steps.steps if new.steps else ()), *map(step_of, life.changes)),
            speakers=new.left_out,
            made_by=made_by,
        )
        points, counted = await self._index_all(work, life, new)
        writes = (
            *memory_writes(life.touched),
            *counted,
            Put.of(CHANGES, session_row(work.number), steps),
            Put.of(STATS, STATS, after),
        )
        changed = _changed(work, life, new.known_from, partial=summary is None)
        return Decision(writes=writes, points=points, events=(changed,), skipped=summary is None)

    async def _index_all(
        self, work: Work[Gathered], life: Lifecycle, new: SessionMemories
    ) -> tuple[tuple[Point, ...], list[Write]]:
        """The points of all changed memories, and the writes that count the terms of new ones.

        A memory keeps the vector of its creation: the names known then are left out, so that no later session changes
        it. A late session may make more names known in it: then all its memories are indexed again.
        """
        touched = [*life.touched, *await self._renamed(work, life, new)]
        if not touched:
            return (), []
        older = await read_named(self._store, work.key, sorted({memory.session for memory in touched}))
        counts = older | {work.number: new.left_out}
        left_out = [new.speakers[: counts.get(memory.session)] for memory in touched]
        listed = [terms(memory.text, drop=names) for memory, names in zip(touched, left_out, strict=True)]
        texts = [without_names(memory.text, names) for memory, names in zip(touched, left_out, strict=True)]
        vectors = await self._embedder.embed(texts)
        points = tuple(
            build_point(work.key, memory, vectors[row], listed[row], self._settings)
            for row, memory in enumerate(touched)
        )
        fresh = [words for memory, words in zip(touched, listed, strict=True) if life.was_added(memory.memory_id)]
        known_terms = await read_memory_frequencies(self._store, work.key, set(chain.from_iterable(fresh)))
        return points, frequency_writes(TERMS, MemoryFrequency, fresh, known_terms)

    async def _renamed(self, work: Work[Gathered], life: Lifecycle, new: SessionMemories) -> list[Memory]:
        """The unchanged memories of a late session of which more names are left out than before."""
        if new.steps is None or new.left_out <= new.steps.speakers:
            return []
        changed = {memory.memory_id for memory in life.touched}
        there = [step.memory_id for step in new.steps.steps if step.kind is ChangeKind.ADDED]
        return await read_memories(self._store, work.key, [id_ for id_ in there if id_ not in changed])


def _changed(work: Work[Gathered], life: Lifecycle, known_from: datetime, *, partial: bool) -> MemoriesChanged:
    source = work.events[0]
    return MemoriesChanged(
        tenant=source.tenant,
        conversation_id=source.conversation_id,
        session=work.number,
        changes=life.changes,
        known_from=known_from,
        partial=partial,
    )
