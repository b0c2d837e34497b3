"""The port `Publisher`: the log in memory and the real broker do the same."""

import pytest

from eunoe.deploy.local.tansu.identity import refuse_ordinary_broker
from eunoe.schemas.errors import Refused
from eunoe.streams.admin import create_topics
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.publisher import KafkaPublisher, MessageTooLarge, size_of
from eunoe.streams.reader import read_all
from eunoe.streams.record import Message
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import DEFAULT_MAX_BYTES, Topic, TopicNames
from tests.support import given
from tests.support.needs import Broker, under_test
from tests.support.tansu import settings

pytestmark = pytest.mark.timeout(60)

PARTITIONS = 4


@pytest.fixture(scope="module")
def kafka(servers):
    return settings(servers.kafka)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
async def log(request):
    """(a publisher, a function that reads a topic whole)."""
    if request.param == "memory":
        in_memory = MemoryLog(PARTITIONS)

        async def held(topic):
            return in_memory.records(topic)

        yield in_memory, held
        return
    kafka, names = request.getfixturevalue("kafka"), TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, names, PARTITIONS)
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()

    async def read(topic):
        return [record async for record in read_all(kafka, names, topic)]

    yield publisher, read
    await publisher.stop()


async def test_the_places_of_what_was_published_are_given(log):
    publisher, read = log
    messages = [Message(Topic.SESSIONS, b"key%d" % (i % 5), b"%d" % i) for i in range(40)]
    places = [*await publisher.publish(messages[:39]), *await publisher.publish(messages[39:])]
    there = {(record.partition, record.offset): record.value for record in await read(Topic.SESSIONS)}
    assert [there[place.partition, place.offset] for place in places] == [each.value for each in messages]
    assert {place.topic for place in places} == {"sessions"}


async def test_what_is_published_is_there_in_order(log):
    publisher, read = log
    headers = (("trace", b"\xff\x00"), ("empty", b""))
    messages = [Message(Topic.SESSIONS, b"key%d" % (i % 7), b"%d" % i, headers) for i in range(200)]
    await publisher.publish(messages[:120])
    await publisher.publish(messages[120:])
    await publisher.publish([])
    records = await read(Topic.SESSIONS)
    for key in {message.key for message in messages}:
        found = [record for record in records if record.key == key]
        assert [record.value for record in found] == [each.value for each in messages if each.key == key]
        assert {record.partition for record in found} == {partition_of(key, PARTITIONS)}
    assert {(record.topic, tuple(record.headers.items())) for record in records} == {("sessions", headers)}
    for partition in {record.partition for record in records}:
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))


async def test_a_partition_that_is_given_is_taken(log):
    publisher, read = log
    other = (partition_of(b"key", PARTITIONS) + 1) % PARTITIONS
    await publisher.publish([Message(Topic.SEGMENTS, b"key", b"", partition=other)])
    await publisher.publish([Message(Topic.SEGMENTS, None, b"no key", partition=other)])
    records = await read(Topic.SEGMENTS)
    assert [(record.partition, record.key, record.value) for record in records] == [
        (other, b"key", b""),
        (other, None, b"no key"),
    ]


async def test_what_is_too_large_keeps_all_from_being_sent(log):
    publisher, read = log
    room = DEFAULT_MAX_BYTES - size_of(Message(Topic.REPLIES, b"key", b""))
    fits, over = (Message(Topic.REPLIES, b"key", b"x" * (room + more)) for more in (0, 1))
    with pytest.raises(MessageTooLarge, match="replies"):
        await publisher.publish([fits, over])
    assert await read(Topic.REPLIES) == []
    await publisher.publish([fits])
    (record,) = await read(Topic.REPLIES)
    assert record.value == fits.value


async def test_a_topic_that_is_none(log):
    publisher, _ = log
    with pytest.raises(ValueError, match="nonsense"):
        await publisher.publish([Message("nonsense", b"key", b"")])


@pytest.mark.broker
async def test_who_waits_for_a_topic_hears_when_the_broker_has_something_there(kafka):
    names, heard = TopicNames(prefix=given.own_prefix()), list[str]()
    await create_topics(kafka, names, PARTITIONS)
    publisher = KafkaPublisher(kafka, names)
    publisher.notify_after([Topic.SESSIONS, Topic.SEGMENTS], lambda: heard.append("one"))
    publisher.notify_after([Topic.SESSIONS], lambda: heard.append("other"))
    await publisher.start()
    try:
        await publisher.publish([Message(Topic.SEGMENTS, b"key", b"1"), Message(Topic.MEMORIES, b"key", b"2")])
        assert heard == ["one"]
        await publisher.publish([Message(Topic.SESSIONS, b"key", b"1"), Message(Topic.SESSIONS, b"key", b"2")])
        assert sorted(heard) == ["one", "one", "other"]
    finally:
        await publisher.stop()


@pytest.mark.broker
async def test_the_embedded_broker_is_told_from_an_ordinary_one(kafka):
    if under_test() is Broker.EMBEDDED:
        await refuse_ordinary_broker(kafka)
        return
    with pytest.raises(Refused, match=r"^EUNOE_BROKER__EMBEDDED is set, but .* is not the broker of `eunoe up`.*$"):
        await refuse_ordinary_broker(kafka)
