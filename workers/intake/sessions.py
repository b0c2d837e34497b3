"""Decisions of intake on utterances: they open sessions, join them, and close those that are full or superseded.

Sessions with different ids are open side by side, one per id. A session gets its number when it closes, so that the
stages behind never wait for one that stays open.
"""

from dataclasses import dataclass
from datetime import datetime

from eunoe.schemas.decisions import Decision, Drop, Put, Rejection, Write
from eunoe.schemas.erasure import Asked
from eunoe.schemas.events import CloseReason, Erase, Line, Utterance, UtteranceErased, Wants
from eunoe.schemas.records import DeadLetterReason
from eunoe.workers.intake.closing import SessionToClose, close_all
from eunoe.workers.intake.erased import ERASED_LINE, stand_in, without_ask
from eunoe.workers.intake.head import Head, OpenSession
from eunoe.workers.intake.known_ids import RingSlot, SeenUtterance, digest_of, ring_slot
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.state import ERASURES, HEAD, LINES, RING, SEEN, IntakeState
from eunoe.workers.intake.turns import TurnPosition, is_blended, line_of, needs_lines, turn_events

CONFLICT = "was used before with another content"
"""The end of the error where an utterance id is that of another utterance."""


@dataclass(frozen=True, slots=True)
class IncomingLine:
    """An utterance and its line in the form that is stored."""

    utterance: Utterance
    line: Line
    text: str
    """The line as JSON."""
    size: int
    """Bytes of the line as JSON."""

    @classmethod
    def of(cls, utterance: Utterance) -> "IncomingLine":
        """The utterance with its line."""
        line = line_of(utterance)
        text = line.model_dump_json()
        return cls(utterance, line, text, len(text.encode()))

    @classmethod
    def of_erased(cls, event: UtteranceErased, log_time: datetime) -> "IncomingLine":
        """The stand-in of an erased utterance, with the size of its line."""
        utterance = stand_in(event, log_time)
        return cls(utterance, line_of(utterance), ERASED_LINE, event.size)


def closings(head: Head, incoming: IncomingLine, settings: IntakeSettings) -> tuple[SessionToClose, ...]:
    """The sessions to close before an utterance is added to its own.

    If its own session is open: that one, where it is full. If the utterance opens one: an open session without an id,
    because nobody could name it from now on, and the quietest of the others where too many are open.
    """
    session_id = incoming.utterance.session_id
    own = head.find(session_id)
    if own is not None:
        is_full = own.lines + 1 > settings.max_utterances or own.size + incoming.size > settings.max_session_bytes
        return (SessionToClose(own, CloseReason.BOUNDS),) if is_full else ()
    unnamed = [session for session in head.open if session.session_id is None]
    named = [session for session in head.open if session.session_id is not None]
    surplus = max(len(named) + 1 - settings.max_open_sessions, 0)
    return tuple(SessionToClose(session, CloseReason.SUCCEEDED) for session in (*unnamed, *named[:surplus]))


def sessions_read(head: Head, incoming: IncomingLine, settings: IntakeSettings) -> tuple[OpenSession, ...]:
    """The open sessions whose lines an utterance needs: those that it closes, and its own for an ask."""
    closed = tuple(closing.session for closing in closings(head, incoming, settings))
    own = head.find(incoming.utterance.session_id)
    return (*closed, own) if own is not None and needs_lines(incoming.utterance, settings) else closed


def on_utterance(
    known: IntakeState, incoming: IncomingLine, log_time: datetime, settings: IntakeSettings, *, replayed: bool
) -> Decision:
    """Decide an utterance: record its id, open or close sessions, request the reply it asks for.

    One that was erased is not taken again: without an effect, and without a dead letter, which would hold its text.
    """
    utterance = incoming.utterance
    if known.erased:
        return Decision()
    if len(utterance.text.encode()) > settings.max_text_bytes:
        size = len(utterance.text.encode())
        return _rejected(
            DeadLetterReason.TOO_LONG, f"text of {size} bytes; at most {settings.max_text_bytes} are taken"
        )
    if utterance.ask is not None and utterance.ask.wants is Wants.MEMORY:
        # not in the window of known ids: recalls would push utterances out of it. Respond answers a request only once
        return Decision(
            events=turn_events(utterance, _position_unrecorded(known, utterance), settings, replayed=replayed)
        )
    if known.seen is not None:
        if known.seen == digest_of(utterance):
            return Decision()
        return _rejected(DeadLetterReason.CONFLICT, f"utterance id {utterance.utterance_id!r} {CONFLICT}")
    if utterance.ask is not None and not utterance.ask.record:
        return _unrecorded(known, utterance, settings, replayed=replayed)
    return _recorded(known, incoming, log_time, settings, replayed=replayed)


def on_erased(
    known: IntakeState, incoming: IncomingLine, event: UtteranceErased, log_time: datetime, settings: IntakeSettings
) -> Decision:
    """Decide the placeholder of an erased utterance: all numbers move as they did with it."""
    if event.text_bytes > settings.max_text_bytes or known.seen is not None or event.asked is Asked.RECALL:
        return Decision()
    return without_ask(on_utterance(known, incoming, log_time, settings, replayed=True))


def _rejected(reason: DeadLetterReason, error: str) -> Decision:
    return Decision(rejection=Rejection(reason=reason, error=error))


def _unrecorded(known: IntakeState, utterance: Utterance, settings: IntakeSettings, *, replayed: bool) -> Decision:
    head, writes = _remember(known, known.head, utterance, settings)
    events = turn_events(utterance, _position_unrecorded(known, utterance), settings, replayed=replayed)
    return Decision(writes=(*writes, Put.of(HEAD, HEAD, head)), events=events)


def _position_unrecorded(known: IntakeState, utterance: Utterance) -> TurnPosition:
    """The place of an ask that is not recorded: behind the lines of its session, if that is open."""
    session = known.head.find(utterance.session_id)
    before = known.lines.get(session.opened, ()) if session is not None else ()
    return TurnPosition(known.head.closed + 1, before)


def _recorded(
    known: IntakeState, incoming: IncomingLine, log_time: datetime, settings: IntakeSettings, *, replayed: bool
) -> Decision:
    utterance = incoming.utterance
    closing = close_all(known, closings(known.head, incoming, settings), utterance, log_time)
    after, own = closing.head, known.head.find(utterance.session_id)
    session = own if own is not None and own in after.open else _opened(known, after, utterance, log_time)
    before = known.lines.get(session.opened, ())
    turn = after.turn + is_blended(utterance, settings)
    grown = session.model_copy(
        update={
            "lines": session.lines + 1,
            "size": session.size + incoming.size,
            "last_utterance_id": utterance.utterance_id,
            "last_log_time": log_time,
            "turn_runs": session.with_turn(turn) if turn > after.turn else session.turn_runs,
        }
    )
    others = after.without(session)
    head = after.model_copy(
        update={"opened": max(after.opened, session.opened), "open": (*others, grown), "turn": turn}
    )
    head, remembering = _remember(known, head, utterance, settings)
    position = TurnPosition(
        head.closed + 1, before, turn, session.opened, tuple(sorted(other.opened for other in head.open))
    )
    return Decision(
        writes=(
            *closing.writes,
            *remembering,
            Put(LINES, session.row(session.lines), incoming.text),
            Put.of(HEAD, HEAD, head),
        ),
        events=(*closing.events, *turn_events(utterance, position, settings, replayed=replayed)),
        timer=head.timer(log_time),
    )


def _opened(known: IntakeState, head: Head, utterance: Utterance, log_time: datetime) -> OpenSession:
    """A new session for the utterance, before it is added; ``head`` is the state after the closings.

    It goes on with the utterance's own session, if that was closed for being full.
    """
    full = known.head.find(utterance.session_id)
    number = head.opened + 1
    return OpenSession(
        opened=number,
        session_id=utterance.session_id if full is None else full.session_id,
        continues=known.closed if full is None else head.closed,
        prefix=f"{number}-",
        last_utterance_id=utterance.utterance_id,
        last_log_time=log_time,
    )


def _remember(
    known: IntakeState, head: Head, utterance: Utterance, settings: IntakeSettings
) -> tuple[Head, tuple[Write, ...]]:
    slot = ring_slot(head, settings)
    writes: list[Write] = [Drop(table=SEEN, id=known.evicted)] if known.evicted else []
    writes += [
        Put.of(SEEN, utterance.utterance_id, SeenUtterance(digest=digest_of(utterance))),
        Put.of(RING, slot, RingSlot(utterance_id=utterance.utterance_id)),
    ]
    return head.model_copy(update={"remembered": head.remembered + 1}), tuple(writes)


def on_erase(event: Erase) -> Decision:
    """Record the request; nothing acts on it, for a record does not prove who sent it (`deploy/docs/erasure.md`)."""
    return Decision(writes=(Put.of(ERASURES, event.request_id, event),))
