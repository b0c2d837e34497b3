"""The events of a turn."""

from collections.abc import Sequence
from typing import Any

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Work
from eunoe.schemas.events import Insight, LookedUp, ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed
from eunoe.workers.blend.turn import NO_PROVENANCE, Blend

NOT_READY = "memory of the session before was not ready in time"
NO_EVIDENCE = "the last two utterances are no evidence"
ERASED = "its utterance was erased"
NO_INSIGHT = "the last two utterances tell nothing that is worth remembering"


def proposal(event: ReplyRequested, known: int, blend: Blend, because: str) -> InsightsProposed:
    """The turn's proposal to memory; ``because``: the reason if it is empty."""
    return InsightsProposed(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        session=event.session,
        turn=event.turn or 0,
        insights=blend.insights,
        known_session=known,
        because="" if blend.insights else because,
        made_by=blend.made_by,
    )


def empty_proposal(event: ReplyRequested, known: int, because: str) -> InsightsProposed:
    """A proposal without insights, with the reason."""
    return proposal(event, known, Blend((), NO_PROVENANCE), because)


def reply_contexts(
    event: ReplyRequested, insights: Sequence[Insight] = (), looked_up: LookedUp | None = None, *, infused: bool
) -> tuple[ReplyContext, ...]:
    """The context for `respond`; empty if no reply is wanted."""
    if not event.reply_wanted or event.request is None:
        return ()
    context = ReplyContext(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        session=event.session,
        request=event.request,
        question=event.question,
        dialogue=event.dialogue,
        insights=tuple(insights),
        infused=infused,
        looked_up=looked_up,
    )
    return (context,)


def propose_nothing(work: Work[Any], error: str) -> tuple[Contract, ...]:
    """The events of a turn that failed, so that neither memory nor the reply waits for it."""
    event: ReplyRequested = work.event
    return empty_proposal(event, 0, error or "failed"), *reply_contexts(event, infused=False)
