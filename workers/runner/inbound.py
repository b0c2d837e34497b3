"""Reads raw records: gives the event with its place in the order, or the reason to reject the record."""

from dataclasses import dataclass, replace
from datetime import datetime

from eunoe.schemas.base import MAX_AGE, Contract, write_time
from eunoe.schemas.decisions import Rejection, Scope
from eunoe.schemas.errors import NewerVersion, StateDamaged
from eunoe.schemas.events import (
    ConversationEvent,
    ReplyContext,
    ReplyRequested,
    SessionEvent,
    SessionSkipped,
    Utterance,
    UtteranceErased,
)
from eunoe.schemas.records import DeadLetterReason, GenerationPromoted
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode
from eunoe.streams.position import is_copy, record_log_time, record_position
from eunoe.streams.record import UNREADABLE_HEADER, Record
from eunoe.streams.retries import is_late, read_retry
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import TOPICS, Topic
from eunoe.workers.stage import ApplyOrder, StageSpec


@dataclass(frozen=True, slots=True)
class OrderedEvent:
    """An event that the stage consumes, with its place in the order."""

    event: ConversationEvent
    record: Record
    """The record that it came in, unsealed."""
    scope: Scope
    number: int
    log_time: datetime
    replayed: bool
    late: bool = False
    """Whether it is a skipped session that is retried, or comes from such a session."""
    passed_over: str | None = None
    """The reason why an operator passes over it undecided; `None` means that it is decided."""

    @property
    def asks(self) -> bool:
        """Whether a client wants a reply to it."""
        return isinstance(self.event, Utterance) and self.event.ask is not None


@dataclass(frozen=True, slots=True)
class Promotion:
    """Another generation answers the asks behind ``position`` in this partition."""

    generation: str
    position: int
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The log that is read, and the generation that it is read for."""

    epoch: int
    """The number of times that the broker (or the topic) was created anew."""
    partitions: int
    generation: str = "v1"
    is_first: bool = True
    """Whether this generation answers until another one is promoted."""

    def answers(self, promoted: str | None) -> bool:
        """Whether this generation answers where ``promoted`` was promoted last; `None` means that none was."""
        return self.is_first if promoted is None else promoted == self.generation


def read_record(record: Record, spec: StageSpec, place: LogPlace) -> OrderedEvent | Promotion | Rejection | None:
    """The event of a record; a `Rejection` for a dead letter, `None` for an event that the stage does not consume.

    Raises `NewerVersion` for an internal event of a newer schema version, or with a word that no enumeration has here.
    """
    try:
        _check_readable(record)
        retry = read_retry(record)
        if retry is not None and (retry.stage != spec.name or not spec.retries):
            return None
        event = decode(record.value)
        if isinstance(event, GenerationPromoted) and record.topic == Topic.CONVERSATIONS and record.key is None:
            return Promotion(event.generation, record_position(record, place.epoch), event.nonce)
        rejection = _misplaced(event, record, place)
        if rejection or not isinstance(event, ConversationEvent):
            return rejection
        ordered = _ordered_event(event, record, spec, place)
        if ordered is None or spec.order is not ApplyOrder.SESSION or not (retry or is_late(record)):
            return ordered
        number = ordered.number if retry is None or retry.number is None else retry.number
        return replace(ordered, number=number, late=True)
    except ContractError as error:
        if _is_newer(error) and record.topic != Topic.CONVERSATIONS:
            raise NewerVersion(f"{record.place}: {error}") from None
        return Rejection(reason=error.reason, error=str(error))


def read_parked(text: str, key: str) -> Contract:
    """The event of a parked text of conversation ``key``.

    Raises `NewerVersion` where a newer version wrote it, `StateDamaged` for any other text.
    """
    try:
        return decode(text.encode())
    except ContractError as error:
        if _is_newer(error):
            raise NewerVersion(f"a parked event of {key}: {error}") from None
        raise StateDamaged(
            f"a parked event of {key} is none ({error}): it was changed; run `eunoe repair` to derive the conversation"
            " again",
            "Redis",
        ) from None


def _is_newer(error: ContractError) -> bool:
    """Whether a newer version may have written what stages write: a client may have misspelt the word."""
    return error.reason is DeadLetterReason.NEWER_VERSION or error.has_unknown_word


def _misplaced(event: Contract, record: Record, place: LogPlace) -> Rejection | None:
    # the placeholder of an erased utterance stands where that stood: only a copy of the log has such a place
    is_placeholder = isinstance(event, UtteranceErased) and is_copy(record)
    carried = type(event) in TOPICS[Topic(record.topic)].carries or is_placeholder
    if not carried or not isinstance(event, ConversationEvent):
        return Rejection(
            reason=DeadLetterReason.UNKNOWN_TYPE, error=f"{event.type_tag()} does not belong into {record.topic}"
        )
    if record.key is None:
        return Rejection(reason=DeadLetterReason.BAD_KEY, error=f"no key; expected {event.key}")
    if record.key != event.key.encode():
        return Rejection(
            reason=DeadLetterReason.BAD_KEY,
            error=f"the key {record.key.decode(errors='replace')!r:.200} disagrees with the body: expected {event.key}",
        )
    expected = partition_of(record.key, place.partitions)
    if record.partition != expected:
        return Rejection(
            reason=DeadLetterReason.WRONG_PARTITION,
            error=f"in partition {record.partition}, but murmur2 puts the key into {expected} of {place.partitions}:"
            " set the producer's partitioner to murmur2_random",
        )
    return None


def _check_readable(record: Record) -> None:
    unreadable = record.headers.get(UNREADABLE_HEADER)
    if unreadable is not None:
        raise ContractError(DeadLetterReason.UNREADABLE, unreadable.decode(errors="replace")[:500])


def _check_time(event: ConversationEvent, log_time: datetime) -> None:
    """Refuse a client's time that no clock shows: days before or after it would have no date."""
    at = getattr(event, "at", None)
    if isinstance(at, datetime) and abs(at - log_time) > MAX_AGE:
        raise ContractError(
            DeadLetterReason.INVALID,
            f"at: {write_time(at)} is over {MAX_AGE.days // 365} years from {write_time(log_time)},"
            " when the log took it",
        )


def _ordered_event(event: ConversationEvent, record: Record, spec: StageSpec, place: LogPlace) -> OrderedEvent | None:
    skipped = isinstance(event, SessionSkipped) and spec.order is ApplyOrder.SESSION
    if not skipped and type(event) not in spec.consumes:
        return None
    request_id, number = _order(event, record, spec, place)
    log_time = record_log_time(record)
    _check_time(event, log_time)
    return OrderedEvent(
        event=event,
        record=record,
        scope=Scope(stage=spec.name, key=event.key, request_id=request_id),
        number=number,
        log_time=log_time,
        replayed=is_copy(record),
    )


def _order(event: ConversationEvent, record: Record, spec: StageSpec, place: LogPlace) -> tuple[str, int]:
    if spec.order is ApplyOrder.POSITION:
        return "", record_position(record, place.epoch)
    if spec.order is ApplyOrder.REQUEST and isinstance(event, ReplyContext):
        return event.ask_id, 1
    if spec.order is ApplyOrder.TURN and isinstance(event, ReplyRequested):
        return "", _turn(event)
    if isinstance(event, SessionEvent):
        return "", event.session
    raise TypeError(f"{spec.name} orders by {spec.order}, which {event.type_tag()} has not")


def _turn(event: ReplyRequested) -> int:
    if event.turn is None or event.turn < 1:
        raise ContractError(DeadLetterReason.INVALID, f"turn: a request to {Topic.REPLY_REQUESTS} must be numbered")
    return event.turn
