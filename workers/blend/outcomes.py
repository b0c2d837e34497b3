"""What a turn tells the rest of the house. Pure."""

from collections.abc import Sequence
from typing import Any

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Work
from eunoe.schemas.events import Insight, Provenance, ReplyContext, ReplyRequested
from eunoe.schemas.memory import InsightsProposed
from eunoe.workers.blend.scene import NOBODY, Blend

NOT_READY = "memory of the session before was not ready in time"
NO_EVIDENCE = "the last two utterances are no evidence"
NOTHING_TOLD = "the last two utterances tell nothing that is worth remembering"


def proposed(event: ReplyRequested, known: int, blend: Blend, because: str = "") -> InsightsProposed:
    """The turn's proposal to memory; ``because`` says why it is empty, where it is."""
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


def nothing(event: ReplyRequested, known: int, because: str, made_by: Provenance = NOBODY) -> InsightsProposed:
    """The proposal that proposes nothing, and says why."""
    return proposed(event, known, Blend((), made_by), because)


def contexts(event: ReplyRequested, insights: Sequence[Insight] = (), *, infused: bool) -> tuple[ReplyContext, ...]:
    """What the responder gets; nothing where no reply waits for it."""
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
    )
    return (context,)


def propose_nothing(work: Work[Any], error: str) -> tuple[Contract, ...]:
    """The way to give up: neither memory nor the asker waits for ever."""
    event: ReplyRequested = work.event
    return nothing(event, 0, error[:500] or "failed"), *contexts(event, infused=False)
