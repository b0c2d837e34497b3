"""The client against a real broker, with an echo in the place of the workers."""

import asyncio
import contextlib
from datetime import UTC, datetime

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import UnknownTopicOrPartitionError

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.events import DeadLetterReason, Erase, Provenance, Reply, SessionEnded, Strategy, Utterance
from eunoe.streams.admin import create_topics
from eunoe.streams.client import Connection, MemoryClient, ReplyFailed, ReplyNotUttered, ReplyTimeout
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import dead_letter, distinct_letters
from eunoe.streams.plain_consumer import open_consumer
from eunoe.streams.publisher import KafkaPublisher, size_of
from eunoe.streams.reader import read_all, read_one
from eunoe.streams.record import Message, Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import DEFAULT_MAX_BYTES, Topic, TopicNames
from tests.support import given
from tests.support.ports import free_port
from tests.support.tansu import broker, own_broker, settings

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]

PARTITIONS = 4


@pytest.fixture(scope="module")
def kafka(servers):
    return settings(servers.kafka)


@pytest.fixture
async def names(kafka):
    """Topics of this test's own."""
    own = TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, own, PARTITIONS)
    return own


async def said(kafka, names) -> list[Record]:
    return [record async for record in read_all(kafka, names, Topic.CONVERSATIONS)]


async def until_said(kafka, names) -> None:
    while not await said(kafka, names):  # noqa: ASYNC110 - the log tells nobody that it grew
        await asyncio.sleep(0.05)


async def events(kafka, names):
    return [decode(record.value) for record in await said(kafka, names)]


def reply_to(question: Utterance, **fields) -> Reply:
    asked = question.ask
    assert asked is not None
    echo = {
        "reply_id": f"r-{asked.request_id}",
        "request_id": asked.request_id,
        "speaker": asked.speak_as,
        "text": f"you said: {question.text}",
        "strategy": asked.strategy or Strategy.SEGMENT,
        "known_session": 0,
        "made_by": Provenance(code="echo", model="echo"),
    }
    return Reply(tenant=question.tenant, conversation_id=question.conversation_id, **(echo | fields))


@contextlib.asynccontextmanager
async def responder(kafka, names, answer):
    """Everything that is asked in ``conversations`` gets what ``answer`` makes of it."""
    topic = names.name(Topic.CONVERSATIONS)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, fetch_max_wait_ms=20)
    publisher = KafkaPublisher(kafka, names)
    await consumer.start()
    await publisher.start()
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)

    async def run():
        async for found in consumer:
            event = decode(found.value)
            if isinstance(event, Utterance) and event.ask:
                made = [Message(Topic.REPLIES, reply.key.encode(), encode(reply)) for reply in answer(event)]
                await publisher.publish(made)

    task = asyncio.create_task(run())
    try:
        yield publisher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await publisher.stop()
        await consumer.stop()


def echo(question):
    return [reply_to(question)]


async def test_what_is_said_is_in_the_log_in_its_order(kafka, names):
    at = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with MemoryClient(kafka, conversation_id="지민 & Ann/1", tenant="a b", names=names) as memory:
        sent = [
            await memory.utter("안녕하세요 👋", speaker="지민", at=at, session_id="s1"),
            await memory.utter("hi", speaker="Ann", utterance_id="u2"),
            await memory.end_session("s1"),
            await memory.erase(["u2"]),
        ]
    records = await said(kafka, names)
    assert [decode(record.value) for record in records] == sent
    assert {record.key for record in records} == {b"a%20b/%EC%A7%80%EB%AF%BC%20%26%20Ann%2F1"}
    assert {record.partition for record in records} == {partition_of(records[0].key, PARTITIONS)}
    assert isinstance(sent[0], Utterance)
    assert (sent[0].at, sent[0].session_id, sent[1].utterance_id) == (at, "s1", "u2")
    assert isinstance(sent[2], SessionEnded)
    assert isinstance(sent[3], Erase)
    assert records[0].appended.year > 2020, "the record's time is the log's, not that of the utterance"


async def test_a_reply_comes_back_and_is_uttered(kafka, names):
    async with (
        responder(kafka, names, echo),
        MemoryClient(kafka, conversation_id="c", names=names) as memory,
    ):
        reply = await memory.ask("where were we?", speaker="Ann", session_id="s1", speak_as="Bea", budget_tokens=500)
    question, answer = await events(kafka, names)
    assert reply.text == "you said: where were we?"
    assert (question.speaker, question.session_id, question.ask.budget_tokens) == ("Ann", "s1", 500)
    assert (answer.speaker, answer.text, answer.reply_id) == ("Bea", reply.text, reply.reply_id)
    assert (answer.session_id, answer.ask, answer.utterance_id) == ("s1", None, reply.reply_id)


@pytest.mark.parametrize(("utter_replies", "record"), [(True, False), (False, True)])
async def test_a_reply_that_is_not_uttered(kafka, names, utter_replies, record):
    async with (
        responder(kafka, names, echo),
        MemoryClient(kafka, conversation_id="c", names=names, utter_replies=utter_replies) as memory,
    ):
        reply = await memory.ask("hm?", speaker="Ann", record=record, strategy=Strategy.SEGMENT)
        (question,) = await events(kafka, names)
        assert question.ask.record is record
        await memory.utter_reply(reply)
    assert [event.reply_id for event in await events(kafka, names)] == [None, reply.reply_id]


async def test_two_hundred_conversations_ask_at_once_over_one_connection(kafka, names):
    async with responder(kafka, names, echo), Connection(kafka, names) as connection:

        async def chat(number):
            async with MemoryClient(connection, conversation_id=f"c{number}") as memory:
                asks = [memory.ask(f"{number}/{turn}", speaker="Ann") for turn in range(3)]
                return [reply.text for reply in await asyncio.gather(*asks)]

        replies = await asyncio.gather(*(chat(number) for number in range(200)))
    assert replies == [[f"you said: {number}/{turn}" for turn in range(3)] for number in range(200)]
    assert len(await events(kafka, names)) == 200 * 3 * 2


async def test_older_and_foreign_replies_are_not_taken(kafka, names):
    def confusing(question):
        other = question.model_copy(update={"conversation_id": "other"})
        return [reply_to(other, text="another's"), reply_to(question), reply_to(question, text="twice")]

    old = Utterance(
        conversation_id="c", utterance_id="u", speaker="Ann", text="old", at=datetime.now(UTC), ask={"request_id": "r1"}
    )
    async with responder(kafka, names, confusing) as publisher:
        broken = Message(Topic.REPLIES, b"default/c", b"no json")
        await publisher.publish([broken, Message(Topic.REPLIES, b"default/c", encode(reply_to(old))), broken])
        async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
            first = await memory.ask("new", speaker="Ann", request_id="r1")
            await publisher.publish([broken])
            second = await memory.ask("newer", speaker="Ann")
    assert (first.text, second.text) == ("you said: new", "you said: newer")


async def test_a_reply_with_an_error_is_raised_and_not_uttered(kafka, names):
    async with (
        responder(kafka, names, lambda question: [reply_to(question, text="", error="no model")]),
        MemoryClient(kafka, conversation_id="c", names=names) as memory,
    ):
        with pytest.raises(ReplyFailed, match="no model") as caught:
            await memory.ask("hm?", speaker="Ann")
    assert caught.value.reply.error == "no model"
    assert len(await events(kafka, names)) == 1


async def test_a_reply_too_long_to_be_uttered_is_not_lost(kafka, names):
    async with (
        responder(kafka, names, lambda question: [reply_to(question, text="x" * 40_000)]),
        MemoryClient(kafka, conversation_id="c", names=names) as memory,
    ):
        with pytest.raises(ReplyNotUttered, match="40,000 bytes") as caught:
            await memory.ask("hm?", speaker="Ann")
    assert len(caught.value.reply.text) == 40_000


async def test_no_reply_in_time(kafka, names):
    async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
        with pytest.raises(ReplyTimeout, match=r"request r9 of default/c within 0\.2 s: .*dead-letters") as caught:
            await memory.ask("anybody?", speaker="Ann", timeout=0.2, request_id="r9")
        assert caught.value.request_id == "r9"
        (question,) = await events(kafka, names)
        assert question.ask.request_id == "r9"
        async with responder(kafka, names, echo):
            reply = await memory.ask("now?", speaker="Ann")
    assert reply.text == "you said: now?"


async def test_a_request_is_waited_for_once(kafka, names):
    async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
        first = asyncio.create_task(memory.ask("one", speaker="Ann", request_id="r1"))
        await until_said(kafka, names)
        with pytest.raises(ValueError, match="waited for already"):
            await memory.ask("two", speaker="Ann", request_id="r1")
    with pytest.raises(Unavailable, match="closed"):
        await first
    assert len(await said(kafka, names)) == 1


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
async def test_what_is_wrong_is_told_before_anything_is_sent(kafka, names, text, options, fault):
    async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
        with pytest.raises(ValueError, match=fault) as caught:
            await memory.ask(text, **({"speaker": "Ann"} | options))
    assert len(str(caught.value)) < 200
    assert await said(kafka, names) == []


@pytest.mark.parametrize("conversation_id", ["", "a\tb", "\ud800", "c" * 201])
def test_no_client_for_a_conversation_that_cannot_be(conversation_id):
    with pytest.raises(ValueError, match="conversation_id: "):
        MemoryClient("127.0.0.1:9092", conversation_id=conversation_id)


async def test_topics_that_are_not_there_are_named_and_not_created(kafka):
    names = TopicNames(prefix="nobody")
    for _ in range(2):
        with pytest.raises(Refused, match=r"nobody\.conversations.*eunoe topics create"):
            async with MemoryClient(kafka, conversation_id="c", names=names):
                pass
    with pytest.raises(Refused, match=r"nobody\.v1\.sessions.*eunoe topics create"):
        await anext(read_all(kafka, names, Topic.SESSIONS))


async def test_a_broker_that_is_not_there():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=address) as caught:
        async with MemoryClient(address, conversation_id="c"):
            pass
    assert "\n" not in str(caught.value)


@pytest.mark.needs("idempotence")
async def test_a_client_of_a_bare_address(kafka, names):
    async with MemoryClient(kafka.bootstrap, conversation_id="c", names=names) as memory:
        sent = await memory.utter("hi", speaker="Ann")
    assert await events(kafka, names) == [sent]


async def test_a_client_that_is_not_open():
    with pytest.raises(RuntimeError, match="async with"):
        await MemoryClient("127.0.0.1:9092", conversation_id="c").utter("hi", speaker="Ann")


# ---- reading whole topics


async def test_a_whole_topic_is_read_up_to_where_it_ended(kafka, names):
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    try:
        sent = [Message(Topic.SESSIONS, f"k{i}".encode(), str(i).encode(), (("n", b"1"),)) for i in range(2000)]
        await publisher.publish(sent)
        read = read_all(kafka, names, Topic.SESSIONS)
        records = [await anext(read)]
        await publisher.publish([Message(Topic.SESSIONS, b"k0", b"late")])
        records += [record async for record in read]
    finally:
        await publisher.stop()
    assert {(record.key, record.value) for record in records} == {(each.key, each.value) for each in sent}
    assert len(records) == 2000
    assert [(r.partition, r.offset) for r in records] == sorted((r.partition, r.offset) for r in records)
    assert {record.topic for record in records} == {"sessions"}
    assert records[0].headers == {"n": b"1"}

    begin = {record.partition: record.offset for record in records}
    rest = [record async for record in read_all(kafka, names, Topic.SESSIONS, begin=begin)]
    assert len(rest) == PARTITIONS + 1
    assert [r async for r in read_all(kafka, names, Topic.SEGMENTS)] == []


# ---- dead letters at the broker's limit


async def test_the_largest_record_that_a_topic_takes_has_a_dead_letter_that_fits(kafka, names):
    empty = Message(Topic.CONVERSATIONS, b"default/c", b"", (("trace", b"1" * 100),))
    largest = Message(Topic.CONVERSATIONS, empty.key, b"\0" * (DEFAULT_MAX_BYTES - size_of(empty)), empty.headers)
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    try:
        await publisher.publish([largest])
        (record,) = await said(kafka, names)
        letter = dead_letter(record, "intake", DeadLetterReason.NOT_JSON, "\0" * 3000)
        await publisher.publish([letter, letter])
    finally:
        await publisher.stop()
    ((found, told),) = [pair async for pair in distinct_letters(read_all(kafka, names, Topic.DEAD_LETTERS))]
    assert found.value == largest.value
    assert found.headers["trace"] == b"1" * 100
    assert (told.offset, told.size, told.truncated) == (record.offset, len(largest.value), False)


@pytest.mark.needs("own-broker")
async def test_a_broker_that_goes_away():
    async with own_broker() as bootstrap:
        kafka = settings(bootstrap).model_copy(update={"request_timeout_ms": 1000})
        own = TopicNames()
        await create_topics(kafka, own, 1)
        memory = MemoryClient(kafka, conversation_id="c", names=own)
        await memory.__aenter__()
        with pytest.raises(ReplyTimeout):
            await memory.ask("anybody?", speaker="Ann", timeout=0.1)
    with pytest.raises(Unavailable, match=bootstrap):
        await memory.utter("hi", speaker="Ann")
    with pytest.raises(Unavailable, match=bootstrap):
        await memory.ask("hm?", speaker="Ann")
    await asyncio.wait_for(memory.__aexit__(None, None, None), 30)


async def test_who_follows_the_log_of_many_writers_misses_none_of_it(kafka, names):
    writers, each = 6, 500
    place = TopicPartition(names.name(Topic.CONVERSATIONS), partition_of(b"t/c", PARTITIONS))
    followed: list[int] = []

    async def write(number: int) -> None:
        publisher = KafkaPublisher(kafka, names)
        await publisher.start()
        try:
            for turn in range(each):
                await publisher.publish([Message(Topic.CONVERSATIONS, b"t/c", f"{number} {turn}".encode())])
        finally:
            await publisher.stop()

    async with open_consumer(kafka) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        writing = asyncio.gather(*(write(number) for number in range(writers)))
        while len(followed) < writers * each and not (writing.done() and followed[-1:] == [writers * each - 1]):
            found = await consumer.getmany(timeout_ms=20)
            followed += [record.offset for records in found.values() for record in records]
        await writing
    assert followed == list(range(writers * each))


async def test_the_end_of_a_long_log_is_read_as_that_of_a_short_one():
    with broker() as bootstrap:  # the shared one need not carry it
        await _read_the_end_of_a_long_log(settings(bootstrap), TopicNames(prefix=given.own_prefix()))


async def _read_the_end_of_a_long_log(kafka, names):
    await create_topics(kafka, names, PARTITIONS)
    long, place = 400_000, TopicPartition(names.name(Topic.CONVERSATIONS), 0)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, linger_ms=0)
    await producer.start()
    try:
        for _ in range(0, long, 500):
            sent = [await producer.send(place.topic, b"x" * 100, partition=0) for _ in range(500)]
            await asyncio.gather(*sent)
        async with open_consumer(kafka) as consumer, asyncio.timeout(8):
            consumer.assign([place])
            consumer.seek(place, long)
            for offset in (long, long + 1):
                await producer.send(place.topic, b"news", partition=0)
                found = await consumer.getone()
                assert (found.offset, found.value) == (offset, b"news")
            last = await read_one(kafka, names, Topic.CONVERSATIONS, (0, long + 1))
            assert last is not None
            assert last.value == b"news"
    finally:
        await producer.stop()


async def test_topics_that_a_broker_does_not_show_yet_are_waited_for(kafka, names, monkeypatch):
    async def forgetful(*_given, **_named):
        raise UnknownTopicOrPartitionError

    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    monkeypatch.setattr(AIOKafkaProducer, "send", forgetful)
    try:
        with pytest.raises(Unavailable, match="topics not visible yet"):
            await publisher.publish([Message(Topic.CONVERSATIONS, b"t/c", b"{}")])
    finally:
        await publisher.stop()
