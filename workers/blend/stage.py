"""Stage `blend`: makes insights from past memories and the present dialogue, turn by turn (CREEM, section 3)."""

from collections.abc import Callable, Sequence
from time import monotonic

from eunoe.schemas.decisions import Decision, Drop, Put, Wait, Work, Write
from eunoe.schemas.events import Insight, LookedUp, ReplyRequested
from eunoe.schemas.ports import StateStore
from eunoe.schemas.sizes import latest_that_fit
from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.outcomes import (
    ERASED,
    NO_EVIDENCE,
    NO_INSIGHT,
    NOT_READY,
    empty_proposal,
    proposal,
    reply_contexts,
)
from eunoe.workers.blend.prompt import MAX_QUESTION_CHARS
from eunoe.workers.blend.reads import Recall, TurnInsights, read_proposals
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.tables import TURNS
from eunoe.workers.blend.turn import NO_PROVENANCE, Blend, BlendInput
from eunoe.workers.blend.waiting import TurnWaits
from eunoe.workers.update.reads import findable_session


class BlendStage:
    """Proposes insights of the last utterances to memory, and passes them to `respond`.

    Owns the proposals of the open session: within it they act through `ReplyContext` and on later turns. It reads
    memory as of the previous session and waits until that is ready. ``clock`` returns seconds.
    """

    def __init__(
        self,
        store: StateStore,
        recall: Recall,
        blender: Blender,
        settings: BlendSettings,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._recall = recall
        self._blender = blender
        self._settings = settings
        self._waits = TurnWaits(settings, clock)

    async def decide(self, work: Work[ReplyRequested]) -> Decision | Wait:
        """Decide the turn's proposal, and the context of a wanted reply.

        Returns `Wait` while memory of the previous session is not ready; after the time limit the turn proposes
        nothing. Raises `Unavailable`.
        """
        event = work.event
        before = event.session - 1
        if event.erased:
            return Decision(events=(empty_proposal(event, before, ERASED),))
        if work.recorded is not None:
            return _without_memory(event, int(work.recorded))
        known = await findable_session(self._store, work.key) if before else 0
        if known >= before:
            self._waits.forget(work.key)
            return await self._blended(work, before)
        if self._waits.is_expired(work, known):
            return _without_memory(event, known)
        return Wait(f"memory of session {before} is not ready")

    async def _blended(self, work: Work[ReplyRequested], known: int) -> Decision:
        event = work.event
        rows, own = await read_proposals(self._store, work.key), _opened(event)
        earlier = tuple(insight for row in rows.values() if row.session == own for insight in row.insights)
        blend, because = await self._blend(work, earlier)
        still_open = {own, *(event.open_sessions or ())}
        stale = [row for row, proposed in rows.items() if proposed.session not in still_open]
        shared = latest_that_fit((*earlier, *blend.insights), self._settings.max_insight_bytes)
        return Decision(
            writes=_writes(work, blend, stale),
            events=(
                proposal(event, known, blend, because),
                *reply_contexts(event, shared, blend.looked_up, infused=True),
            ),
        )

    async def _blend(self, work: Work[ReplyRequested], earlier: tuple[Insight, ...]) -> tuple[Blend, str]:
        """The insights, and the reason if there are none."""
        event = work.event
        turn = BlendInput((*event.dialogue, event.question), earlier=earlier)
        if not any(line.is_evidence for line in turn.latest):
            return Blend((), NO_PROVENANCE), NO_EVIDENCE
        if event.session > 1:
            turn = await self._with_past(work, turn)
        blend = await self._blender.blend(turn, urgent=event.reply_wanted)
        fitting = latest_that_fit(blend.insights, self._settings.max_insight_bytes)
        return Blend(fitting, blend.made_by, turn.looked_up), NO_INSIGHT

    async def _with_past(self, work: Work[ReplyRequested], turn: BlendInput) -> BlendInput:
        """The turn with memories retrieved for it, without those that this session has replaced."""
        question = await self._blender.question(turn.lines, urgent=work.event.reply_wanted)
        spent = {id_ for insight in turn.earlier for id_ in insight.replaces}
        memories = await self._recall.past(work.key, work.event.session, question, turn.lines, spent)
        looked_up = LookedUp(
            question=question[:MAX_QUESTION_CHARS], memory_ids=tuple(memory.memory_id for memory in memories)
        )
        return BlendInput(turn.lines, memories, turn.earlier, looked_up)


def _without_memory(event: ReplyRequested, known: int) -> Decision:
    """The decision after the time limit, with memory ready up to session ``known``, recorded for replays."""
    events = (empty_proposal(event, known, NOT_READY), *reply_contexts(event, infused=False))
    return Decision(events=events, recorded=str(known))


def _opened(event: ReplyRequested) -> int:
    """The place of the turn's session among all that were opened: the number that closes next, unless it says else."""
    return event.session if event.opened is None else event.opened


def _writes(work: Work[ReplyRequested], blend: Blend, stale: Sequence[str]) -> tuple[Write, ...]:
    """The write of the proposal; the rows ``stale`` of sessions that have closed are dropped."""
    writes: list[Write] = [Drop(TURNS, row) for row in stale]
    if blend.insights:
        row = TurnInsights(session=_opened(work.event), insights=blend.insights)
        writes.append(Put.of(TURNS, f"{work.number:09d}", row))
    return tuple(writes)
