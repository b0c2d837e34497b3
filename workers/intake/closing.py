"""Closing of sessions: numbers them, hands their lines on, and removes them from the stored state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from eunoe.schemas.decisions import Clear, Decision, Drop, Put, Rejection, Write
from eunoe.schemas.events import CloseReason, Line, SessionClosed, SessionEnded, Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.workers.intake.head import Head, OpenSession, own_turns, rows_of
from eunoe.workers.intake.known_ids import LAST_END, RingSlot, digest_of
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.state import CLOSED, HEAD, LINES, NAMES, RING, ClosedSession, IntakeState, SessionName


@dataclass(frozen=True, slots=True)
class SessionToClose:
    """An open session that an event closes."""

    session: OpenSession
    reason: CloseReason


@dataclass(frozen=True, slots=True)
class ClosedSessions:
    """The effect of closing some sessions."""

    head: Head
    writes: tuple[Write, ...] = ()
    events: tuple[SessionClosed, ...] = ()


def close_all(
    known: IntakeState, closed: Sequence[SessionToClose], event: Utterance | SessionEnded, log_time: datetime
) -> ClosedSessions:
    """Close sessions in this order, because of ``event``; ``known`` has their lines."""
    done = ClosedSessions(known.head)
    for closing in closed:
        done = _close(done, closing, known.lines[closing.session.opened], event, log_time)
    return done


def _close(
    done: ClosedSessions,
    closing: SessionToClose,
    lines: Sequence[Line],
    event: Utterance | SessionEnded,
    log_time: datetime,
) -> ClosedSessions:
    head, session = done.head, closing.session
    others, number = head.without(session), head.closed + 1
    writes: list[Write] = [*(Drop(LINES, row) for row in rows_of(session))] if others else [Clear(table=LINES)]
    if session.session_id is not None:
        writes.append(Put.of(CLOSED, session.session_id, ClosedSession(session=number)))
        writes.append(Put.of(NAMES, str(number), SessionName(session_id=session.session_id)))
    said = SessionClosed(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        session=number,
        session_id=session.session_id,
        lines=tuple(lines),
        known_from=log_time,
        reason=closing.reason,
        continues=session.continues,
        turns=head.turns,
        own_turns=own_turns(session, head.turns),
    )
    return ClosedSessions(
        head.model_copy(update={"closed": number, "open": others, "turn_closed": head.turn}),
        (*done.writes, *writes),
        (*done.events, said),
    )


def sessions_ended(head: Head, event: SessionEnded) -> tuple[OpenSession, ...]:
    """The open sessions whose lines an end may need."""
    if event.after_utterance_id is not None:
        return tuple(one for one in head.open if one.last_utterance_id == event.after_utterance_id)
    session = head.find(event.session_id)
    return () if session is None else (session,)


def on_session_ended(known: IntakeState, event: SessionEnded, log_time: datetime, settings: IntakeSettings) -> Decision:
    """Decide a session's end; a repeated or late end changes nothing.

    An end without a session id closes the open session that was spoken in last. The same end again, time included, is a
    producer's repetition: it must not close the session that has begun meanwhile.
    """
    head = known.head
    if event.after_utterance_id is not None:
        return _closed_idle(known, event, log_time, settings)
    if event.session_id is None:
        return _closed_unnamed(known, event, log_time)
    session = head.find(event.session_id)
    if session is not None:
        return _closed(known, SessionToClose(session, CloseReason.ENDED), event, log_time)
    if known.closed is not None:
        return Decision()
    error = f"no session {event.session_id!r} was ever opened"
    return Decision(rejection=Rejection(reason=DeadLetterReason.UNKNOWN_SESSION, error=error))


def _closed_unnamed(known: IntakeState, event: SessionEnded, log_time: datetime) -> Decision:
    digest = digest_of(event)
    if known.last_end == digest:
        return Decision()
    noted = Put.of(RING, LAST_END, RingSlot(utterance_id=digest))
    session = known.head.find(None)
    if session is None:
        return Decision(writes=(noted,))
    closing = _closed(known, SessionToClose(session, CloseReason.ENDED), event, log_time)
    return replace(closing, writes=(*closing.writes, noted))


def _closed_idle(known: IntakeState, event: SessionEnded, log_time: datetime, settings: IntakeSettings) -> Decision:
    named = (session for session in known.head.open if session.last_utterance_id == event.after_utterance_id)
    session = next(named, None)
    if session is not None and log_time - session.last_log_time >= timedelta(seconds=settings.idle_seconds):
        return _closed(known, SessionToClose(session, CloseReason.IDLE), event, log_time)
    # the timer was stale, or the clock that read it is ahead of the log's: set it again
    return Decision(timer=known.head.timer(log_time))


def _closed(known: IntakeState, closing: SessionToClose, event: SessionEnded, log_time: datetime) -> Decision:
    done = close_all(known, (closing,), event, log_time)
    return Decision(
        writes=(*done.writes, Put.of(HEAD, HEAD, done.head)), events=done.events, timer=done.head.timer(log_time)
    )
