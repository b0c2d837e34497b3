"""One suite over both clients: the same calls are the same events, replies and errors, over Kafka and over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.events import Erase, SessionEnded, Strategy, Utterance
from eunoe.streams.admin import create_topics
from eunoe.streams.client import Connection, MemoryClient
from eunoe.streams.codec import decode
from eunoe.streams.conversation import ConversationClient, ReplyFailed, ReplyNotUttered, ReplyTimeout
from eunoe.streams.http_client import GatewayConnection, HttpMemoryClient
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import TopicNames
from tests.support import responder as answering
from tests.support.replica import Served, served
from tests.support.responder import PARTITIONS, echo, reply_to
from tests.support.session import SessionServers

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]

TENANT = "a b"


@dataclass(frozen=True)
class Way:
    """A log, and a kind of client that writes to it."""

    kafka: KafkaSettings
    names: TopicNames
    gateway: Served | None

    def client(self, conversation_id: str = "c", **more: bool) -> ConversationClient:
        """A client with a connection of its own."""
        if self.gateway is None:
            return MemoryClient(self.kafka, conversation_id=conversation_id, tenant=TENANT, names=self.names, **more)
        key = self.gateway.key(TENANT)
        return HttpMemoryClient(self.gateway.url, key=key, conversation_id=conversation_id, tenant=TENANT, **more)

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[Callable[[str], ConversationClient]]:
        """Makes clients that share a connection."""
        if self.gateway is None:
            async with Connection(self.kafka, self.names) as connection:
                yield lambda name: MemoryClient(connection, conversation_id=name, tenant=TENANT)
            return
        async with GatewayConnection(self.gateway.url, self.gateway.key(TENANT)) as connection_:
            yield lambda name: HttpMemoryClient(connection_, conversation_id=name, tenant=TENANT)

    def answered_by(self, answer):
        return answering.responder(self.kafka, self.names, answer)

    async def records(self):
        return await answering.said(self.kafka, self.names)

    async def events(self):
        return [decode(record.value) for record in await self.records()]


@pytest.fixture(params=["kafka", "http"])
async def way(request: pytest.FixtureRequest, servers: SessionServers, tmp_path: Path) -> AsyncIterator[Way]:
    own: Settings = servers.settings(PARTITIONS)
    await create_topics(own.kafka_settings, own.names, PARTITIONS)
    if request.param == "kafka":
        yield Way(own.kafka_settings, own.names, None)
        return
    own = own.model_copy(update={"erasures": SecretStr(str(tmp_path / "erasures.sqlite"))})
    async with served(own, tmp_path) as gateway:
        yield Way(own.kafka_settings, own.names, gateway)


async def test_what_is_said_is_in_the_log_in_its_order(way):
    at = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with way.client("지민 & Ann/1") as memory:
        sent = [
            await memory.utter("안녕하세요 👋", speaker="지민", at=at, session_id="s1"),
            await memory.utter("hi", speaker="Ann", utterance_id="u2"),
            await memory.end_session("s1"),
        ]
    records = await way.records()
    assert [decode(record.value) for record in records] == sent
    assert {record.key for record in records} == {b"a%20b/%EC%A7%80%EB%AF%BC%20%26%20Ann%2F1"}
    assert {record.partition for record in records} == {partition_of(records[0].key, PARTITIONS)}
    assert isinstance(sent[0], Utterance)
    assert (sent[0].at, sent[0].session_id, sent[1].utterance_id) == (at, "s1", "u2")
    assert isinstance(sent[2], SessionEnded)
    assert records[0].appended.year > 2020, "the record's time is the log's, not that of the utterance"


async def test_an_erasure_is_recorded_by_kafka_and_looked_at_by_the_gateway(way):
    async with way.client() as memory:
        if way.gateway is None:
            sent = await memory.erase(["u2"])
            assert isinstance(sent, Erase)
            assert await way.events() == [sent]
            return
        with pytest.raises(Refused, match="no such conversation"):
            await memory.erase(["u2"])
    assert await way.events() == []


async def test_a_reply_comes_back_and_is_uttered(way):
    async with way.answered_by(echo), way.client() as memory:
        reply = await memory.ask("where were we?", speaker="Ann", session_id="s1", speak_as="Bea", budget_tokens=500)
    question, answer = await way.events()
    assert reply.text == "you said: where were we?"
    assert (question.speaker, question.session_id, question.ask.budget_tokens) == ("Ann", "s1", 500)
    assert (answer.speaker, answer.text, answer.reply_id) == ("Bea", reply.text, reply.reply_id)
    assert (answer.session_id, answer.ask, answer.utterance_id) == ("s1", None, reply.reply_id)


@pytest.mark.parametrize(("utter_replies", "record"), [(True, False), (False, True)])
async def test_a_reply_that_is_not_uttered(way, utter_replies, record):
    async with way.answered_by(echo), way.client(utter_replies=utter_replies) as memory:
        reply = await memory.ask("hm?", speaker="Ann", record=record, strategy=Strategy.SEGMENT)
        (question,) = await way.events()
        assert question.ask.record is record
        await memory.utter_reply(reply)
    assert [event.reply_id for event in await way.events()] == [None, reply.reply_id]


async def test_a_hundred_conversations_ask_at_once_over_one_connection(way):
    async with way.answered_by(echo), way.shared() as client:

        async def chat(number):
            async with client(f"c{number}") as memory:
                asks = [memory.ask(f"{number}/{turn}", speaker="Ann") for turn in range(3)]
                return [reply.text for reply in await asyncio.gather(*asks)]

        replies = await asyncio.gather(*(chat(number) for number in range(100)))
    assert replies == [[f"you said: {number}/{turn}" for turn in range(3)] for number in range(100)]
    assert len(await way.events()) == 100 * 3 * 2


async def test_a_reply_with_an_error_is_raised_and_not_uttered(way):
    async with (
        way.answered_by(lambda question: [reply_to(question, text="", error="no model")]),
        way.client() as memory,
    ):
        with pytest.raises(ReplyFailed, match=r"request r1: .*no model") as caught:
            await memory.ask("hm?", speaker="Ann", request_id="r1")
    assert caught.value.request_id == "r1"
    assert caught.value.reply is not None
    assert (caught.value.reply.error, caught.value.reply.request_id) == ("no model", "r1")
    assert len(await way.events()) == 1


async def test_a_reply_too_long_to_be_uttered_is_not_lost(way):
    async with way.answered_by(lambda question: [reply_to(question, text="x" * 40_000)]), way.client() as memory:
        with pytest.raises(ReplyNotUttered, match="40,000 bytes") as caught:
            await memory.ask("hm?", speaker="Ann")
    assert len(caught.value.reply.text) == 40_000


async def test_no_reply_in_time(way):
    async with way.client() as memory:
        with pytest.raises(ReplyTimeout, match=r"request r9 of a%20b/c within 2 s: .*dead-letters") as caught:
            await memory.ask("anybody?", speaker="Ann", timeout=2, request_id="r9")
        assert caught.value.request_id == "r9"
        (question,) = await way.events()
        assert question.ask.request_id == "r9"
        async with way.answered_by(echo):
            reply = await memory.ask("now?", speaker="Ann")
    assert reply.text == "you said: now?"


@pytest.mark.parametrize(
    ("text", "options", "fault"),
    [
        ("", {}, "text: "),
        (" \n", {}, "text: .*blank"),
        ("a\ud800", {}, "text: .*surrogate"),
        ("é" * 16_385, {}, "text: has 32,770 bytes"),
        ("hi", {"speaker": "A\nnn"}, "speaker: .*control"),
        ("hi", {"speaker": "A" * 101}, "speaker: "),
        ("hi", {"at": datetime(2026, 3, 1)}, "at: "),  # noqa: DTZ001
        ("hi", {"utterance_id": "u" * 201}, "utterance_id: "),
        ("hi", {"budget_tokens": 0}, "budget_tokens: "),
        ("hi", {"strategy": "guess"}, "strategy: "),
        ("hi", {"timeout": 0}, "timeout: "),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(text, options, fault):
    clients = (
        MemoryClient("127.0.0.1:1", conversation_id="c"),
        HttpMemoryClient("http://127.0.0.1:1", key="eu_x", conversation_id="c"),
    )
    for memory in clients:  # neither is connected
        with pytest.raises(ValueError, match=fault) as caught:
            asyncio.run(memory.ask(text, **({"speaker": "Ann"} | options)))
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("conversation_id", ["", "a\tb", "\ud800", "c" * 201])
def test_no_client_for_a_conversation_that_cannot_be(conversation_id):
    with pytest.raises(ValueError, match="conversation_id: "):
        MemoryClient("127.0.0.1:9092", conversation_id=conversation_id)
    with pytest.raises(ValueError, match="conversation_id: "):
        HttpMemoryClient("http://127.0.0.1:1", key="eu_x", conversation_id=conversation_id)
