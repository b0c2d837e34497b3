"""The client against a real broker, with an echo in the place of the workers."""

import asyncio
from datetime import UTC, datetime

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import UnknownTopicOrPartitionError

from eunoe.deploy.local.ports import free_port
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.events import Utterance
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.admin import create_topics
from eunoe.streams.client import MemoryClient, ReplyTimeout
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import dead_letter, distinct_letters
from eunoe.streams.plain_consumer import open_consumer
from eunoe.streams.publisher import KafkaPublisher, size_of
from eunoe.streams.reader import read_all, read_one
from eunoe.streams.record import Message
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import DEFAULT_MAX_BYTES, Topic, TopicNames
from tests.support import given
from tests.support.responder import PARTITIONS, events, reply_to, responder, said, until_said
from tests.support.tansu import broker, own_broker, settings

pytestmark = [pytest.mark.broker, pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def kafka(servers):
    return settings(servers.kafka)


@pytest.fixture
async def names(kafka):
    """Topics of this test's own."""
    own = TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, own, PARTITIONS)
    return own


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


async def test_a_request_is_waited_for_once(kafka, names):
    async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
        first = asyncio.create_task(memory.ask("one", speaker="Ann", request_id="r1"))
        await until_said(kafka, names)
        with pytest.raises(ValueError, match="waited for already"):
            await memory.ask("two", speaker="Ann", request_id="r1")
    with pytest.raises(Unavailable, match="closed"):
        await first
    assert len(await said(kafka, names)) == 1


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


async def test_a_client_of_another_event_loop_is_refused_and_does_not_wait_forever(kafka, names):
    async with MemoryClient(kafka, conversation_id="c", names=names) as memory:
        for call in (lambda: memory.utter("Hi", speaker="Ann"), lambda: memory.__aexit__(None, None, None)):
            with pytest.raises(RuntimeError, match="another event loop: open one in each"):
                await asyncio.wait_for(asyncio.to_thread(lambda call=call: asyncio.run(call())), 20)
        await memory.utter("Hi", speaker="Ann")


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


@pytest.mark.slow
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
