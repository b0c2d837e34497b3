"""The Python client of one conversation over Kafka: adds utterances and asks questions."""

import asyncio
from dataclasses import dataclass, field
from typing import Self

from eunoe.schemas.events import DEFAULT_TENANT, ConversationEvent, Erase, SessionEnded, Utterance
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import encode
from eunoe.streams.conversation import (
    MAX_TEXT_BYTES,
    AskOptions,
    ConversationClient,
    ReplyFailed,
    ReplyNotUttered,
    ReplyTimeout,
    UtteranceOptions,
)
from eunoe.streams.own_loop import OwnLoop
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.reader import partitions_of
from eunoe.streams.record import Message
from eunoe.streams.replies import RepliesReader
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames
from eunoe.streams.tracing import SpanKind, span

__all__ = [
    "MAX_TEXT_BYTES",
    "AskOptions",
    "Connection",
    "MemoryClient",
    "ReplyFailed",
    "ReplyNotUttered",
    "ReplyTimeout",
    "UtteranceOptions",
]


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    """The parts of an open connection."""

    publisher: KafkaPublisher
    replies: RepliesReader
    partitions: int
    loop: OwnLoop = field(default_factory=OwnLoop)


class Connection:
    """One producer and one reader of replies, shared by any number of `MemoryClient` in an event loop.

    Raises ``RuntimeError`` where it is used in another loop, or is not open.
    """

    def __init__(self, kafka: str | KafkaSettings, names: TopicNames = TopicNames()) -> None:  # noqa: B008 - frozen
        self._kafka = KafkaSettings(bootstrap=kafka) if isinstance(kafka, str) else kafka
        self._names = names
        self._open: _OpenConnection | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect; raises `Unavailable` when no broker answers, `Refused` where the topics do not exist."""
        topics = [Topic.CONVERSATIONS, Topic.REPLIES]
        conversations, replies = await partitions_of(self._kafka, self._names, topics)
        publisher = KafkaPublisher(self._kafka, self._names)
        await publisher.start()
        self._open = _OpenConnection(publisher, RepliesReader(self._kafka, self._names, replies), conversations)
        self._open.loop.check()

    async def stop(self) -> None:
        """Disconnect; pending asks raise `Unavailable`."""
        opened = self._open
        if opened is not None:
            opened.loop.check()
            self._open = None
            try:
                await opened.replies.stop()
            finally:
                await opened.publisher.stop()

    @property
    def replies(self) -> RepliesReader:
        """The reader of replies."""
        return self._opened().replies

    async def send(self, event: ConversationEvent) -> None:
        """Append an event to ``conversations``; raises `Unavailable` when the broker does not answer.

        The record gets the append time of the broker, or the time of sending where the broker keeps none.
        """
        opened = self._opened()
        key = event.key.encode()
        message = Message(Topic.CONVERSATIONS, key, encode(event), partition=partition_of(key, opened.partitions))
        await opened.publisher.publish([message])

    def _opened(self) -> _OpenConnection:
        if self._open is None:
            raise RuntimeError("connection not open: use `async with`, or call start()")
        self._open.loop.check()
        return self._open


class MemoryClient(ConversationClient):
    """One conversation, for a program that reaches Kafka.

    ``async with MemoryClient("127.0.0.1:9092", conversation_id="ann-1") as memory: ...`` has a connection of its
    own; with an open `Connection` in place of the address it uses that and leaves it open. An address alone means an
    ordinary Kafka broker; the broker of `eunoe up` needs the ``kafka_settings`` of
    ``eunoe.deploy.clients.connect.connected_settings()``.
    """

    def __init__(
        self,
        broker: str | KafkaSettings | Connection,
        *,
        conversation_id: str,
        tenant: str = DEFAULT_TENANT,
        names: TopicNames = TopicNames(),  # noqa: B008 - frozen
        utter_replies: bool = True,
    ) -> None:
        super().__init__(tenant=tenant, conversation_id=conversation_id, utter_replies=utter_replies)
        self._owns = not isinstance(broker, Connection)
        self._connection = broker if isinstance(broker, Connection) else Connection(broker, names)

    async def __aenter__(self) -> Self:
        if self._owns:
            await self._connection.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self._owns:
            await self._connection.stop()

    async def _send(self, event: Utterance | SessionEnded | Erase) -> None:
        await self._connection.send(event)

    async def _answer(self, question: Utterance, request_id: str, timeout: float) -> Reply:
        with span("ask", kind=SpanKind.CLIENT):
            reply = await self._replied(question, request_id, timeout)
        if reply.error is not None:
            raise ReplyFailed(request_id, reply.error, reply)
        return reply

    async def _replied(self, question: Utterance, request_id: str, timeout: float) -> Reply:
        async with self._connection.replies.expecting(self.key, request_id) as future:
            await self._connection.send(question)
            try:
                async with asyncio.timeout(timeout):
                    return await future
            except TimeoutError:
                raise ReplyTimeout(request_id, self.key, timeout) from None
