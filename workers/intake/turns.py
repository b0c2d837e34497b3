"""What an utterance sets going beside its session: a reply, insights, both or nothing. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.base import Contract
from eunoe.schemas.events import Line, ReplyContext, ReplyRequested, Utterance
from eunoe.schemas.sizes import latest_that_fit
from eunoe.workers.intake.settings import BlendMode, IntakeSettings


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """Where an utterance stands."""

    session: int
    before: Sequence[Line]
    """The open session's lines before it."""
    number: int | None = None
    """Its number among the blended turns; that of the last one where it is not blended itself."""


def line_of(utterance: Utterance) -> Line:
    """The utterance as its session carries it."""
    return Line(
        utterance_id=utterance.utterance_id,
        speaker=utterance.speaker,
        text=utterance.text,
        at=utterance.at,
        reply_id=utterance.reply_id,
    )


def is_blended(utterance: Utterance, settings: IntakeSettings) -> bool:
    """True: memory is blended at this utterance.

    Never for a probe, nor for a reply that asks for nothing: it tells what memory knew already.
    """
    if settings.blend is BlendMode.OFF:
        return False
    if utterance.ask is None:
        return settings.blend_unasked and utterance.reply_id is None
    return utterance.ask.record


def needs_lines(utterance: Utterance, settings: IntakeSettings) -> bool:
    """True: what the utterance sets going carries the session so far."""
    return utterance.ask is not None or is_blended(utterance, settings)


def turn_events(
    utterance: Utterance, turn: TurnPosition, settings: IntakeSettings, *, replayed: bool
) -> tuple[Contract, ...]:
    """What goes to the responder and to blend. What was answered long ago is blended again, not answered again."""
    blended = is_blended(utterance, settings)
    waits = blended and settings.blend is BlendMode.BEFORE_REPLY and utterance.ask is not None and not replayed
    carried = replace(turn, before=latest_that_fit(turn.before, settings.max_dialogue_bytes))
    contexts = () if waits or replayed else _reply_contexts(utterance, carried)
    return (*contexts, _reply_requested(utterance, carried, reply_wanted=waits)) if blended else contexts


def _reply_contexts(utterance: Utterance, turn: TurnPosition) -> tuple[ReplyContext, ...]:
    """What the responder gets without blend's help; nothing where the utterance asks for nothing."""
    if utterance.ask is None:
        return ()
    context = ReplyContext(
        tenant=utterance.tenant,
        conversation_id=utterance.conversation_id,
        session=turn.session,
        request=utterance.ask,
        question=line_of(utterance),
        dialogue=tuple(turn.before),
    )
    return (context,)


def _reply_requested(utterance: Utterance, turn: TurnPosition, *, reply_wanted: bool) -> ReplyRequested:
    return ReplyRequested(
        tenant=utterance.tenant,
        conversation_id=utterance.conversation_id,
        session=turn.session,
        turn=turn.number,
        request=utterance.ask,
        question=line_of(utterance),
        dialogue=tuple(turn.before),
        reply_wanted=reply_wanted,
    )
