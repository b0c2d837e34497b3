"""Stage blend: at each turn that it is given, blends past and present into insights (CREEM, section 3)."""

from collections.abc import Callable
from time import monotonic

from eunoe.schemas.decisions import Clear, Decision, Put, Wait, Work, Write
from eunoe.schemas.events import Insight, ReplyRequested
from eunoe.schemas.ports import StateStore
from eunoe.schemas.sizes import latest_that_fit
from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.outcomes import NO_EVIDENCE, NOT_READY, NOTHING_TOLD, contexts, nothing, proposed
from eunoe.workers.blend.reads import TURNS, Recall, TurnInsights, read_proposals
from eunoe.workers.blend.scene import NOBODY, Blend, Scene
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.waiting import Waits
from eunoe.workers.update.reads import findable_session


class BlendStage:
    """Proposes what the last utterances tell to memory, and gives it to the responder.

    It owns the proposals of the open session: within it they act through `ReplyContext` and on later turns.
    It reads memory as it was after the session before, and waits for that. ``clock`` gives seconds.
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
        self._waits = Waits(settings, clock)

    async def decide(self, work: Work[ReplyRequested]) -> Decision | Wait:
        """The turn's proposal, and the context of the reply that waits for it.

        `Wait` while memory of the session before is not ready; once the time is up the turn proposes nothing.
        """
        event = work.event
        before = event.session - 1
        if work.recorded is not None:
            return _uninfused(event, int(work.recorded))
        known = await findable_session(self._store, work.key) if before else 0
        if known >= before:
            self._waits.forget(work.key)
            return await self._blended(work, before)
        if self._waits.is_over(work, known):
            return _uninfused(event, known)
        return Wait(f"memory of session {before} is not ready")

    async def _blended(self, work: Work[ReplyRequested], known: int) -> Decision:
        event = work.event
        rows = await read_proposals(self._store, work.key)
        earlier = tuple(insight for row in rows if row.session == event.session for insight in row.insights)
        blend, because = await self._blend(work, earlier)
        is_stale = any(row.session != event.session for row in rows)
        shared = latest_that_fit((*earlier, *blend.insights), self._settings.max_insight_bytes)
        return Decision(
            writes=_writes(work, blend, clear=is_stale),
            events=(proposed(event, known, blend, because), *contexts(event, shared, infused=True)),
        )

    async def _blend(self, work: Work[ReplyRequested], earlier: tuple[Insight, ...]) -> tuple[Blend, str]:
        """The insights, and why there is none where there is none."""
        event = work.event
        scene = Scene((*event.dialogue, event.question), earlier=earlier)
        if not any(line.is_evidence for line in scene.latest):
            return Blend((), NOBODY), NO_EVIDENCE
        if event.session > 1:
            scene = await self._with_past(work, scene)
        blend = await self._blender.blend(scene, urgent=event.reply_wanted)
        fitting = latest_that_fit(blend.insights, self._settings.max_insight_bytes)
        return Blend(fitting, blend.made_by), NOTHING_TOLD

    async def _with_past(self, work: Work[ReplyRequested], scene: Scene) -> Scene:
        """The scene with what memory holds for it; what this session replaced already is no longer offered."""
        question = await self._blender.question(scene.lines, urgent=work.event.reply_wanted)
        spent = {id_ for insight in scene.earlier for id_ in insight.replaces}
        memories = await self._recall.past(work.key, work.event.session, question, scene.lines, spent)
        return Scene(scene.lines, memories, scene.earlier)


def _uninfused(event: ReplyRequested, known: int) -> Decision:
    """The turn whose time was up while memory knew only session ``known``; a replay does not find it readier."""
    events = (nothing(event, known, NOT_READY), *contexts(event, infused=False))
    return Decision(events=events, recorded=str(known))


def _writes(work: Work[ReplyRequested], blend: Blend, *, clear: bool) -> tuple[Write, ...]:
    """The proposal's row; those of an earlier session go."""
    writes: list[Write] = [Clear(table=TURNS)] if clear else []
    if blend.insights:
        row = TurnInsights(session=work.event.session, insights=blend.insights)
        writes.append(Put.of(TURNS, f"{work.number:09d}", row))
    return tuple(writes)
