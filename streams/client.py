"""The Python client of one conversation: adds utterances and asks questions."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack
from uuid import uuid4

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.errors import EunoeError
from eunoe.schemas.events import (
    DEFAULT_AGENT,
    DEFAULT_TENANT,
    Ask,
    ConversationEvent,
    Erase,
    Reply,
    SessionEnded,
    Strategy,
    Utterance,
)
from eunoe.schemas.versions import describe
from eunoe.streams.codec import encode
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.reader import partitions_of
from eunoe.streams.record import Message
from eunoe.streams.replies import RepliesReader
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames

MAX_TEXT_BYTES: Final = 32_768
"""UTF-8 bytes of one utterance; intake dead-letters longer ones."""

ValueT = TypeVar("ValueT", bound=Value)


class ReplyTimeout(EunoeError):
    """No reply came in time. The ask is in the log and may still be answered."""

    def __init__(self, message: str, request_id: str) -> None:
        super().__init__(message)
        self.request_id = request_id


class ReplyFailed(EunoeError):
    """The responder could not answer; ``reply.error`` has the reason."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"request {reply.request_id}: {reply.error}")
        self.reply = reply


class ReplyNotUttered(EunoeError):
    """``reply`` came, but adding it to the conversation failed; `MemoryClient.utter_reply` adds it."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class UtteranceOptions(TypedDict, total=False):
    """Options of an utterance."""

    at: datetime
    """Time of the utterance, with a zone; default: now."""
    utterance_id: str
    """Default: a new id. An utterance sent again with the same id and content counts once."""
    session_id: str | None
    """The client's name for the session; `None` means the open one."""


class AskOptions(UtteranceOptions, total=False):
    """Options of an ask."""

    record: bool
    """Whether question and reply become part of the session; default: true."""
    strategy: Strategy | None
    budget_tokens: int | None
    """Most tokens of memory in the prompt."""
    timeout: float
    """Seconds to wait for the reply; default: 30."""
    speak_as: str
    """Name of the participant that the responder speaks as."""
    request_id: str


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    """The parts of an open connection."""

    publisher: KafkaPublisher
    replies: RepliesReader
    partitions: int


class Connection:
    """One producer and one reader of replies, shared by any number of `MemoryClient` in a process."""

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

    async def stop(self) -> None:
        """Disconnect; pending asks raise `Unavailable`."""
        opened, self._open = self._open, None
        if opened is not None:
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
        return self._open


class MemoryClient:
    """One conversation, for the program of a participant.

    ``async with MemoryClient("127.0.0.1:9092", conversation_id="ann-1") as memory: ...`` has a connection of its
    own; with an open `Connection` in place of the address it uses that and leaves it open. An address alone means an
    ordinary Kafka broker; the broker of `eunoe up` needs the ``kafka_settings`` of
    ``eunoe.deploy.clients.connect.connected_settings()``.

    A wrong argument is a ``ValueError`` before anything is sent. The log has the events in the order of the awaited
    calls.
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
        self._conversation = {"tenant": tenant, "conversation_id": conversation_id}
        self.key = _checked(ConversationEvent, **self._conversation).key
        self._owns = not isinstance(broker, Connection)
        self._connection = broker if isinstance(broker, Connection) else Connection(broker, names)
        self._utter_replies = utter_replies

    async def __aenter__(self) -> Self:
        if self._owns:
            await self._connection.start()
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self._owns:
            await self._connection.stop()

    async def utter(self, text: str, *, speaker: str, **options: Unpack[UtteranceOptions]) -> Utterance:
        """Add an utterance; returns it when the broker has it.

        Raises ``ValueError`` for invalid arguments, `Unavailable` when the broker does not answer. It may have the
        utterance all the same; send it again with the same ``utterance_id`` and ``at``.
        """
        said = self._utterance(text, speaker, options)
        await self._connection.send(said)
        return said

    async def end_session(self, session_id: str | None = None, *, at: datetime | None = None) -> SessionEnded:
        """End a session, the open one unless named; returns the event when the broker has it."""
        ended = _checked(SessionEnded, **self._conversation, session_id=session_id, at=at or _now())
        await self._connection.send(ended)
        return ended

    async def erase(self, utterance_ids: Iterable[str] = (), *, at: datetime | None = None) -> Erase:
        """Erase these utterances, or without any the whole conversation; returns the event when the broker has it."""
        erase = _checked(
            Erase, **self._conversation, request_id=_new_id(), at=at or _now(), utterance_ids=tuple(utterance_ids)
        )
        await self._connection.send(erase)
        return erase

    async def ask(self, text: str, *, speaker: str, **options: Unpack[AskOptions]) -> Reply:
        """Add an utterance and wait for the reply, which is added too unless the option ``record`` is false.

        Raises ``ValueError`` and `Unavailable` as `utter` does, `ReplyTimeout` when no reply comes in time,
        `ReplyFailed` for a reply with an error, and `ReplyNotUttered` where only adding the reply failed.
        """
        timeout = options.get("timeout", 30.0)
        ask = _ask_of(options)
        question = self._utterance(text, speaker, options, ask=ask)
        async with self._connection.replies.expecting(self.key, ask.request_id) as future:
            await self._connection.send(question)
            reply = await self._in_time(future, timeout, ask.request_id)
        if reply.error is not None:
            raise ReplyFailed(reply)
        if ask.record and self._utter_replies and reply.text.strip():
            try:
                await self.utter_reply(reply, session_id=question.session_id)
            except (EunoeError, ValueError) as fault:
                raise ReplyNotUttered(f"reply not uttered: {reply.reply_id}: {fault}", reply) from fault
        return reply

    async def utter_reply(
        self, reply: Reply, *, session_id: str | None = None, at: datetime | None = None
    ) -> Utterance:
        """Add a reply that was shown: it becomes part of the transcript, never evidence for a memory.

        The utterance has the id of the reply, so that it counts once; sent again, it needs the same ``at``. `ask` calls
        this, unless the client was made with ``utter_replies=False``.
        """
        options = UtteranceOptions(utterance_id=reply.reply_id, session_id=session_id, at=at or _now())
        said = self._utterance(reply.text, reply.speaker, options, reply_id=reply.reply_id)
        await self._connection.send(said)
        return said

    async def _in_time(self, future: "asyncio.Future[Reply]", timeout: float, request_id: str) -> Reply:
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise ReplyTimeout(
                f"no reply to request {request_id} of {self.key} within {timeout:g} s: check that the workers of intake"
                " and respond run and keep up, and whether `eunoe dead-letters list` shows the ask",
                request_id,
            ) from None

    def _utterance(self, text: str, speaker: str, options: UtteranceOptions, **more: Any) -> Utterance:  # noqa: ANN401
        said = _checked(
            Utterance,
            **self._conversation,
            **more,
            utterance_id=options.get("utterance_id") or _new_id(),
            session_id=options.get("session_id"),
            speaker=speaker,
            text=text,
            at=options.get("at") or _now(),
        )
        size = len(said.text.encode())
        if size > MAX_TEXT_BYTES:
            raise ValueError(f"text: has {size:,} bytes of UTF-8, limit is {MAX_TEXT_BYTES:,}")
        return said


def _ask_of(options: AskOptions) -> Ask:
    timeout = options.get("timeout", 30.0)
    if not timeout > 0:
        raise ValueError(f"timeout: must be over 0 seconds, got {timeout:g}")
    return _checked(
        Ask,
        request_id=options.get("request_id") or _new_id(),
        speak_as=options.get("speak_as", DEFAULT_AGENT),
        record=options.get("record", True),
        strategy=options.get("strategy"),
        budget_tokens=options.get("budget_tokens"),
    )


def _checked(model: type[ValueT], **fields: object) -> ValueT:
    """A value of these fields; raises ``ValueError`` that names each wrong field and its fault."""
    for name, value in fields.items():
        if isinstance(value, str) and not _is_unicode(value):
            raise ValueError(f"{name}: holds a lone surrogate, which has no UTF-8 form")
    try:
        return model.model_validate(fields)
    except ValidationError as fault:
        raise ValueError(describe(fault)) from None


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def _new_id() -> str:
    return str(uuid4())


def _now() -> datetime:
    return datetime.now(UTC)
