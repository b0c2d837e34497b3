"""The producer: sends messages and waits for the acknowledgement of the brokers."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownTopicOrPartitionError,
)

from eunoe.schemas.errors import EunoeError, Refused, Unavailable
from eunoe.schemas.keys import KeyStore
from eunoe.streams.access import how_to_see_topics, why_denied
from eunoe.streams.admin import settled_topics
from eunoe.streams.producer import KafkaProducer, ReplacedProducer
from eunoe.streams.record import Message, RecordPlace
from eunoe.streams.sealed.messages import sealed
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import TOPICS, Topic, TopicNames
from eunoe.streams.tracing import TRACE_HEADER, SpanKind, span

_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD = 21
_HEADER_OVERHEAD = 10
_SENDING = {"messaging.system": "kafka", "messaging.operation.type": "send", "messaging.operation.name": "send"}


class MessageTooLarge(EunoeError):
    """A message is larger than its topic allows; nothing was sent."""


class TopicLimitTooLow(MessageTooLarge, Refused):
    """The broker takes only smaller messages in a topic than it must: its setting is at fault, and no message."""


def size_of(message: Message) -> int:
    """Upper bound for the bytes of a message as a batch of its own (record format 2)."""
    headers = sum(len(name.encode()) + len(value) + _HEADER_OVERHEAD for name, value in message.headers)
    return _BATCH_OVERHEAD + _RECORD_OVERHEAD + len(message.key or b"") + len(message.value) + headers


def check_message(message: Message) -> None:
    """Raise `MessageTooLarge` over the topic's limit, ``ValueError`` for a message without key and partition."""
    if message.key is None and message.partition is None:
        raise ValueError(f"message to {message.topic}: without a key it needs a partition")
    if excess := excess_of(message):
        raise MessageTooLarge(excess)


def excess_of(message: Message) -> str | None:
    """The fault of a message over its topic's limit; `None` where it fits."""
    limit, size = TOPICS[Topic(message.topic)].max_bytes, size_of(message)
    return f"message to {message.topic}: has {size} bytes, limit is {limit}" if size > limit else None


def traced(message: Message, traceparent: str | None) -> Message:
    """The message with the span that it comes from; as it is where it names one, and where it has no room for it."""
    if traceparent is None or any(name == TRACE_HEADER for name, _ in message.headers):
        return message
    larger = replace(message, headers=(*message.headers, (TRACE_HEADER, traceparent.encode("latin-1"))))
    return message if excess_of(larger) else larger


class KafkaPublisher:
    """A `eunoe.streams.record.Publisher` over one producer; all in-sync replicas acknowledge."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, data_keys: KeyStore | None = None) -> None:
        """``data_keys``: the keys that messages with text are sealed with; `None`: they are plain."""
        self._kafka = kafka
        self._data_keys = data_keys
        self._names = names
        self._producer = ReplacedProducer(kafka)
        self._wakeups: dict[str, list[Callable[[], None]]] = {}

    async def start(self) -> None:
        """Connect; raises `Unavailable` when no broker answers, or none gives a producer id."""
        await self._producer.start()

    async def stop(self) -> None:
        """Send buffered messages and disconnect; those that no broker takes within a second are dropped."""
        await self._producer.stop()

    async def publish(self, messages: Sequence[Message]) -> list[RecordPlace]:
        """Send all messages; returns their places in the log when the brokers have them.

        One that was to be sealed with a key that is destroyed is not sent: it was erased meanwhile.

        Raises `Unavailable` when no answer comes within the request timeout (some messages may have arrived, or still
        arrive), `Misconfigured` for a forbidden topic, `Refused` for a missing one, `MessageTooLarge` before anything
        is sent.
        """
        if self._data_keys is not None:
            found = [await sealed(message, self._data_keys) for message in messages]
            messages = [message for message in found if message is not None]
        for message in messages:
            check_message(message)
        topics = " ".join(sorted({message.topic for message in messages}))
        with span(f"send {topics}", _SENDING, kind=SpanKind.PRODUCER) as sending:
            if sending.traceparent is not None:
                sending.set("messaging.destination.name", topics)
                sending.set("messaging.batch.message_count", len(messages))
            return await self._publish([traced(message, sending.traceparent) for message in messages])

    async def _publish(self, messages: Sequence[Message]) -> list[RecordPlace]:
        try:
            async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                producer = await self._producer.current()
                sent = [await self._send(producer, message) for message in messages]
                found = await _all(sent)
            self._notify({message.topic for message in messages})
            return [
                RecordPlace(message.topic, place.partition, place.offset)
                for message, place in zip(messages, found, strict=True)
            ]
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            sizes = {message.topic: size_of(message) for message in sorted(messages, key=size_of)}
            told = ", ".join(f"{self._names.name(topic)} ({size} bytes)" for topic, size in sorted(sizes.items()))
            raise TopicLimitTooLow(
                f"{self._kafka.server} refuses a message as too large ({type(error).__name__}) in {told}:"
                f" raise the topic's max.message.bytes, to {max(TOPICS[Topic(topic)].max_bytes for topic in sizes)}"
            ) from None
        except UnknownTopicOrPartitionError as error:
            # a broker that has just restarted answers so for existing topics, too
            missing = await self._missing(messages)
            if missing:
                raise Refused(f"topics missing: {', '.join(missing)}; {how_to_see_topics(self._kafka)}") from error
            raise Unavailable(f"topics not visible yet at {self._kafka.server}", self._kafka.server) from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise why_denied(self._kafka, error, "Write") or Unavailable(
                f"no answer to a publish from {self._kafka.server}: {error!r}", self._kafka.server
            ) from error

    def notify_after(self, topics: Iterable[str], wakeup: Callable[[], None]) -> None:
        """Call ``wakeup`` whenever this publisher has added records to one of the logical ``topics``."""
        for topic in topics:
            self._wakeups.setdefault(topic, []).append(wakeup)

    def _notify(self, topics: Iterable[str]) -> None:
        for topic in topics:
            for wakeup in self._wakeups.get(topic, ()):
                wakeup()

    async def _missing(self, messages: Sequence[Message]) -> list[str]:
        """Names of the topics that the brokers do not have; raises `Unavailable` when none answers."""
        wanted = {message.topic for message in messages}
        found = await settled_topics(self._kafka, self._names, wanted)
        return [status.name for status in found if status.topic in wanted and not status.partitions]

    async def _send(self, producer: KafkaProducer, message: Message) -> "asyncio.Future[Any]":
        topic = self._names.name(message.topic)
        partition = message.partition
        if partition is None:
            partition = partition_of(message.key or b"", len(await producer.partitions_for(topic)))
        headers = list(message.headers)
        return await self._producer.send(
            producer, topic, value=message.value, key=message.key, partition=partition, headers=headers
        )


async def _all(sent: "Sequence[asyncio.Future[Any]]") -> list[Any]:
    """The results of all; raises the first exception. Cancelled, it lets them go on: a failure is to be noticed."""
    if sent:
        await asyncio.wait(sent)
    return [future.result() for future in sent]
