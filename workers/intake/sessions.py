"""The session state of a conversation, and the decision that each event leads to."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from eunoe.schemas.base import Time, Value
from eunoe.schemas.decisions import Clear, Decision, Drop, Put, Rejection, Timer, Write
from eunoe.schemas.events import (
    CloseReason,
    DeadLetterReason,
    Erase,
    Line,
    SessionClosed,
    SessionEnded,
    Utterance,
)
from eunoe.schemas.identity import content_digest
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.turns import TurnPosition, is_blended, line_of, turn_events
from eunoe.workers.stage import StageTables

LAST_END = "last-end"
"""The row of the ring's table for the last end without a session id; the others are numbers."""

HEAD, LINES, SEEN, RING, CLOSED, ERASURES = "head", "lines", "seen", "ring", "closed", "erasures"

TABLES = StageTables(
    digested=(HEAD, LINES, CLOSED, ERASURES),
    left_out={
        SEEN: "a window for detecting repeated utterances; nothing is derived from it",
        RING: "the order of that window",
    },
)


class Head(Value):
    """The state of a conversation."""

    session: int = 0
    """The number of the last opened session."""
    is_open: bool = False
    session_id: str | None = None
    continues: int | None = None
    lines: int = 0
    size: int = 0
    """Bytes of the open session's lines as JSON."""
    last_utterance_id: str | None = None
    last_log_time: Time | None = None
    remembered: int = 0
    """Number of utterance ids ever recorded; gives the place in the ring."""
    turn: int = 0
    """The number of the last turn passed to `blend`: 1, 2, 3 … over all sessions."""
    turn_before: int = 0
    """``turn`` at the opening of the open session."""

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of the open session's turns passed to `blend`."""
        return tuple(range(self.turn_before + 1, self.turn + 1))


class SeenUtterance(Value):
    """The content digest recorded for an utterance id."""

    digest: str


class ClosedSession(Value):
    """The number of the last closed session with a client's session id."""

    session: int


class RingSlot(Value):
    """The utterance id at a place of the ring."""

    utterance_id: str


@dataclass(frozen=True, slots=True)
class IntakeState:
    """The stored state read for one event."""

    head: Head = field(default_factory=Head)
    lines: Sequence[Line] = ()
    """The open session's lines; read only if the event needs them."""
    seen: str | None = None
    """The digest recorded for the event's utterance id."""
    evicted: str | None = None
    """The utterance id that the next one replaces in the ring."""
    closed: int | None = None
    """The number of the last closed session with the event's session id."""
    last_end: str | None = None
    """The digest of the last end without a session id."""


@dataclass(frozen=True, slots=True)
class IncomingLine:
    """An utterance and its line in the form that is stored."""

    utterance: Utterance
    line: Line
    text: str
    """The line as JSON."""
    size: int
    """Bytes of ``text``."""

    @classmethod
    def of(cls, utterance: Utterance) -> "IncomingLine":
        """The utterance with its line."""
        line = line_of(utterance)
        text = line.model_dump_json()
        return cls(utterance, line, text, len(text.encode()))


def digest_of(utterance: Utterance) -> str:
    """The content digest of an utterance, to tell a repeated one from another with the same id."""
    return content_digest(utterance.model_dump_json(exclude={"schema_version"}).encode())


def end_digest(event: SessionEnded) -> str:
    """The digest of a session's end, to tell one that a producer repeats from the next one."""
    return content_digest(event.model_dump_json(exclude={"schema_version"}).encode())


def closing_reason(head: Head, incoming: IncomingLine, settings: IntakeSettings) -> CloseReason | None:
    """The reason to close the open session before this utterance; `None` if there is none, or no open session."""
    if not head.is_open:
        return None
    if incoming.utterance.session_id is not None and incoming.utterance.session_id != head.session_id:
        return CloseReason.SUCCEEDED
    if head.lines + 1 > settings.max_utterances or head.size + incoming.size > settings.max_session_bytes:
        return CloseReason.BOUNDS
    return None


def on_utterance(
    known: IntakeState, incoming: IncomingLine, log_time: datetime, settings: IntakeSettings, *, replayed: bool = False
) -> Decision:
    """Decide an utterance: record its id, open or close sessions, request the reply it asks for."""
    utterance = incoming.utterance
    if len(utterance.text.encode()) > settings.max_text_bytes:
        size = len(utterance.text.encode())
        return _rejected(
            DeadLetterReason.TOO_LONG, f"text of {size} bytes; at most {settings.max_text_bytes} are taken"
        )
    if known.seen is not None:
        if known.seen == digest_of(utterance):
            return Decision()
        return _rejected(
            DeadLetterReason.CONFLICT, f"utterance id {utterance.utterance_id!r} was used before with another content"
        )
    if utterance.ask is not None and not utterance.ask.record:
        return _unrecorded(known, utterance, settings, replayed=replayed)
    return _recorded(known, incoming, log_time, settings, replayed=replayed)


def _rejected(reason: DeadLetterReason, error: str) -> Decision:
    return Decision(rejection=Rejection(reason=reason, error=error))


def _unrecorded(known: IntakeState, utterance: Utterance, settings: IntakeSettings, *, replayed: bool) -> Decision:
    head, writes = _remember(known, known.head, utterance, settings)
    session = head.session if head.is_open else head.session + 1
    events = turn_events(utterance, TurnPosition(session, known.lines), settings, replayed=replayed)
    return Decision(writes=(*writes, Put.of(HEAD, HEAD, head)), events=events)


def _recorded(
    known: IntakeState, incoming: IncomingLine, log_time: datetime, settings: IntakeSettings, *, replayed: bool
) -> Decision:
    utterance = incoming.utterance
    reason = closing_reason(known.head, incoming, settings)
    closing = _closing(known, utterance, reason, log_time) if reason else Decision()
    open_head = _opened(known, utterance, reason)
    before = known.lines if known.head.is_open and not reason else ()
    head = open_head.model_copy(
        update={
            "lines": open_head.lines + 1,
            "size": open_head.size + incoming.size,
            "last_utterance_id": utterance.utterance_id,
            "last_log_time": log_time,
            "turn": open_head.turn + is_blended(utterance, settings),
        }
    )
    head, remembering = _remember(known, head, utterance, settings)
    asks = turn_events(utterance, TurnPosition(head.session, before, head.turn), settings, replayed=replayed)
    return Decision(
        writes=(
            *closing.writes,
            *remembering,
            Put(LINES, f"{open_head.lines:06d}", incoming.text),
            Put.of(HEAD, HEAD, head),
        ),
        events=(*closing.events, *asks),
        timer=Timer(after_utterance_id=utterance.utterance_id, since=log_time),
    )


def _opened(known: IntakeState, utterance: Utterance, reason: CloseReason | None) -> Head:
    """The head of the utterance's session, before it is added."""
    head = known.head
    if head.is_open and reason is None:
        return head
    session_id = utterance.session_id
    continues = known.closed
    if reason is CloseReason.BOUNDS:
        session_id, continues = head.session_id, head.session
    return Head(
        session=head.session + 1,
        is_open=True,
        session_id=session_id,
        continues=continues,
        remembered=head.remembered,
        turn=head.turn,
        turn_before=head.turn,
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


def ring_slot(head: Head, settings: IntakeSettings) -> str:
    """The place in the ring of the next recorded id."""
    return str(head.remembered % settings.remembered_ids)


def on_session_ended(known: IntakeState, event: SessionEnded, log_time: datetime, settings: IntakeSettings) -> Decision:
    """Decide a session's end; a repeated or late end changes nothing.

    An end without a session id closes whatever is open. The same end again, time included, is a producer's repetition:
    it must not close the session that has begun meanwhile.
    """
    head = known.head
    if event.after_utterance_id is not None:
        return _closed_idle(known, event, log_time, settings)
    if event.session_id is None:
        return _closed_unnamed(known, event, log_time)
    if head.is_open and event.session_id == head.session_id:
        return _closing(known, event, CloseReason.ENDED, log_time)
    if known.closed is not None:
        return Decision()
    return _rejected(DeadLetterReason.UNKNOWN_SESSION, f"no session {event.session_id!r} was ever opened")


def _closed_unnamed(known: IntakeState, event: SessionEnded, log_time: datetime) -> Decision:
    digest = end_digest(event)
    if known.last_end == digest:
        return Decision()
    noted = Put.of(RING, LAST_END, RingSlot(utterance_id=digest))
    if not known.head.is_open:
        return Decision(writes=(noted,))
    closing = _closing(known, event, CloseReason.ENDED, log_time)
    return replace(closing, writes=(*closing.writes, noted))


def _closed_idle(known: IntakeState, event: SessionEnded, log_time: datetime, settings: IntakeSettings) -> Decision:
    head = known.head
    if not head.is_open or head.last_log_time is None:
        return Decision(timer=Timer(after_utterance_id=None, since=log_time))
    quiet = log_time - head.last_log_time
    if head.last_utterance_id == event.after_utterance_id and quiet >= timedelta(seconds=settings.idle_seconds):
        return _closing(known, event, CloseReason.IDLE, log_time)
    # the timer was stale, or the clock that read it is ahead of the log's: set it again
    return Decision(timer=Timer(after_utterance_id=head.last_utterance_id, since=head.last_log_time))


def _closing(known: IntakeState, event: Utterance | SessionEnded, reason: CloseReason, log_time: datetime) -> Decision:
    head = known.head
    writes: list[Write] = [Clear(table=LINES)]
    if head.session_id is not None:
        writes.append(Put.of(CLOSED, head.session_id, ClosedSession(session=head.session)))
    closed = head.model_copy(update={"is_open": False, "session_id": None, "continues": None, "lines": 0, "size": 0})
    session = SessionClosed(
        tenant=event.tenant,
        conversation_id=event.conversation_id,
        session=head.session,
        session_id=head.session_id,
        lines=tuple(known.lines),
        known_from=log_time,
        reason=reason,
        continues=head.continues,
        turns=head.turns,
    )
    return Decision(
        writes=(*writes, Put.of(HEAD, HEAD, closed)),
        events=(session,),
        timer=Timer(after_utterance_id=None, since=log_time),
    )


def on_erase(event: Erase) -> Decision:
    """Record the request; stage `erase` acts on it."""
    return Decision(writes=(Put.of(ERASURES, event.request_id, event),))
