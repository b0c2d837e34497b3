"""The events that an utterance causes beside its session: a reply, insights, both or none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.base import Contract
from eunoe.schemas.events import Line, ReplyContext, ReplyRequested, Utterance
from eunoe.schemas.sizes import latest_that_fit
from eunoe.workers.intake.settings import BlendMode, IntakeSettings


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """The position of an utterance."""

    session: int
    """The number of the session that closes next."""
    before: Sequence[Line]
    """The lines of its session before it."""
    number: int | None = None
    """Its number among the blended turns; that of the last one if it is not blended itself."""
    opened: int = 0
    """The place of its session among all that were opened."""
    open_sessions: tuple[int, ...] = ()
    """The places of all open sessions."""


def line_of(utterance: Utterance) -> Line:
    """The line of an utterance in its session."""
    return Line(
        utterance_id=utterance.utterance_id,
        speaker=utterance.speaker,
        text=utterance.text,
        at=utterance.at,
        reply_id=utterance.reply_id,
    )


def is_blended(utterance: Utterance, settings: IntakeSettings) -> bool:
    """Whether memory is blended for this utterance.

    Never for an unrecorded ask, nor for a reply that asks for nothing: it states what memory knew already.
    """
    if settings.blend is BlendMode.OFF:
        return False
    if utterance.ask is None:
        return settings.blend_unasked and utterance.reply_id is None
    return utterance.ask.record


def needs_lines(utterance: Utterance, settings: IntakeSettings) -> bool:
    """Whether its events carry the session so far."""
    return utterance.ask is not None or is_blended(utterance, settings)


def turn_events(
    utterance: Utterance, turn: TurnPosition, settings: IntakeSettings, *, replayed: bool
) -> tuple[Contract, ...]:
    """The events for `respond` and `blend`. A replayed ask is blended again, but not answered again."""
    blended = is_blended(utterance, settings)
    waits = blended and settings.blend is BlendMode.BEFORE_REPLY and utterance.ask is not None and not replayed
    carried = replace(turn, before=latest_that_fit(turn.before, settings.max_dialogue_bytes))
    contexts = () if waits or replayed else _reply_contexts(utterance, carried)
    return (*contexts, _reply_requested(utterance, carried, reply_wanted=waits)) if blended else contexts


def _reply_contexts(utterance: Utterance, turn: TurnPosition) -> tuple[ReplyContext, ...]:
    """The context for `respond` without insights; empty if the utterance asks for nothing."""
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
        opened=None if turn.opened == turn.session else turn.opened,
        open_sessions=turn.open_sessions if len(turn.open_sessions) > 1 else None,
    )
