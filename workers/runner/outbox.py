"""Composes the outbox of a decision, and sends it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Decision, Outbox, OutMessage, Rejection, Scope
from eunoe.schemas.events import ConversationEvent
from eunoe.schemas.ports import StateStore, VectorIndex
from eunoe.schemas.position_ports import LogPositions
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import KEYLESS_PARTITION, dead_letter
from eunoe.streams.publisher import excess_of, traced
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.retries import LATE_HEADER
from eunoe.streams.sealed.log import logged
from eunoe.streams.topics import Topic
from eunoe.streams.tracing import TRACE_HEADER, span
from eunoe.workers.models.questions.recording import Answers
from eunoe.workers.runner.metrics import Part, StageMeter
from eunoe.workers.runner.refused_asks import error_answers
from eunoe.workers.stage import StageSpec


@dataclass(frozen=True, slots=True)
class DecisionStamp:
    """The facts about a decision that its messages carry."""

    number: int
    """The number of the decided event."""
    attempts: int = 1
    late: int | None = None
    """For a late session, the count of late sessions with it; `None` means that it is not late."""
    replayed: bool = False
    """Whether its asks are not to be answered."""
    traceparent: str | None = None
    """The span of the decision: messages that are sent again, by another process, stay in its trace."""
    log_epoch: int | None = None
    """The epoch of the log's positions where the record goes into topic `log`, too; `None`: it does not."""


def compose_outbox(spec: StageSpec, decision: Decision, record: Record, stamp: DecisionStamp) -> Outbox:
    """The outbox of a decision: its points, its events by topic, its dead letter, its timer.

    The events of a late session are marked as late. An ask of a client that is dead-lettered gets the error.
    """
    headers = () if stamp.late is None else ((LATE_HEADER, "1"),)
    messages = [message for event in decision.events for message in _event_messages(spec, event, headers)]
    if decision.rejection is not None:
        messages.append(_letter_message(spec, decision.rejection, record, stamp))
        if spec.reads_log and not stamp.replayed:
            messages += map(_out_message, error_answers(record, decision.rejection.error))
    if stamp.log_epoch is not None:
        messages.append(_out_message(logged(record, stamp.log_epoch)))
    return Outbox(
        number=stamp.number if stamp.late is None else -stamp.late,
        partition=record.partition,
        points=decision.points,
        messages=tuple(in_trace(message, stamp.traceparent) for message in messages),
        timer=None if decision.timer is None else decision.timer.model_copy(update={"number": stamp.number}),
    )


def _event_messages(spec: StageSpec, event: Contract, headers: tuple[tuple[str, str], ...]) -> list[OutMessage]:
    if not isinstance(event, ConversationEvent):
        raise TypeError(f"{spec.name} emitted {event.type_tag()}, which belongs to no conversation")
    text = encode(event).decode()
    return [OutMessage(topic=topic, key=event.key, text=text, headers=headers) for topic in spec.route(event)]


def in_trace(out: OutMessage, traceparent: str | None) -> OutMessage:
    """The message with the span that it comes from, where it has room for it: no decision depends on a trace."""
    if traceparent is None or traced(message := _message(out), traceparent) is message:
        return out
    return out.model_copy(update={"headers": (*out.headers, (TRACE_HEADER, traceparent))})


def _letter_message(spec: StageSpec, rejection: Rejection, record: Record, stamp: DecisionStamp) -> OutMessage:
    number = stamp.number if spec.order.is_gapless else None
    letter = dead_letter(record, spec.name, rejection.reason, rejection.error, stamp.attempts, number=number)
    return OutMessage(
        topic=letter.topic,
        key=None if letter.key is None else letter.key.decode(),
        raw=letter.value,
        headers=tuple((name, value.decode("latin-1")) for name, value in letter.headers),
    )


def _out_message(message: Message) -> OutMessage:
    key = None if message.key is None else message.key.decode()
    headers = tuple((name, value.decode("latin-1")) for name, value in message.headers)
    return OutMessage(topic=message.topic, key=key, text=message.value.decode(), headers=headers)


def _message(out: OutMessage, sealed_with: str | None = None, conversation: str | None = None) -> Message:
    return Message(
        topic=out.topic,
        key=None if out.key is None else out.key.encode(),
        value=out.value,
        headers=tuple((name, value.encode("latin-1")) for name, value in out.headers),
        partition=KEYLESS_PARTITION if out.key is None else None,  # only a dead letter may have no key
        sealed_with=sealed_with,
        conversation=conversation,
    )


def excess_in(outbox: Outbox) -> str | None:
    """The first message that is over its topic's limit, in words; `None` means that all fit.

    Checked before the commit: an outbox that cannot be sent would stop its conversation forever.
    """
    return next((excess for message in outbox.messages if (excess := excess_of(_message(message)))), None)


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends outboxes in the order of the commit: points, messages, timer, mark."""

    store: StateStore
    index: VectorIndex
    log_positions: LogPositions
    publisher: Publisher
    meter: StageMeter = field(default_factory=StageMeter)
    answers: Answers | None = None
    """The cache of recorded answers."""

    async def send(self, scope: Scope, outbox: Outbox) -> None:
        """Send all of it, each part awaited, then mark it sent. May be repeated at any point. Raises `Unavailable`."""
        if outbox.points:
            with self.meter.timed(Part.APPLYING), span("index", {"eunoe.points": len(outbox.points)}):
                await self.index.upsert(outbox.points, outbox.fence or 0)
        if outbox.messages:
            with self.meter.timed(Part.PUBLISHING):
                messages = [_message(message, outbox.key, scope.key) for message in outbox.messages]
                await self.publisher.publish(messages)
            await self._cache_answers(scope, outbox.messages)
        with self.meter.timed(Part.APPLYING), span("mark sent"):
            if outbox.timer is not None:
                await self.log_positions.schedule(outbox.partition, scope.key, outbox.timer)
            await self.store.mark_sent(scope, outbox.number)

    async def _cache_answers(self, scope: Scope, messages: Sequence[OutMessage]) -> None:
        """Cache recorded outcomes, which are in the topic now."""
        for message in messages:
            if message.topic == Topic.ANSWERS and self.answers is not None:
                answer = RecordedAnswer.from_json(message.value)
                await self.answers.put(answer.request, answer.text, scope.key)
