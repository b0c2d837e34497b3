import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from eunoe.streams.memory_log import Deadlock, MemoryConsumer, MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def message(topic, key, value=b"", partition=None):
    return Message(topic, key, value, (("trace", b"1"),), partition)


def ticking():
    count = iter(range(10**6))
    return lambda: START + timedelta(seconds=next(count))


def forward(log, topic, trail):
    async def handle(record, lease):
        trail.append((record.topic, record.value))
        if topic:
            await log.publish([Message(topic, record.key, record.value)])

    return handle


async def test_a_published_message_is_a_record():
    log = MemoryLog(4, ticking())
    await log.publish([message(Topic.CONVERSATIONS, b"k", b"1"), message(Topic.CONVERSATIONS, b"k", b"2")])
    one, two = log.records(Topic.CONVERSATIONS)
    assert (one.topic, one.key, one.value, one.headers) == ("conversations", b"k", b"1", {"trace": b"1"})
    assert (one.offset, two.offset) == (0, 1)
    assert one.partition == two.partition
    assert two.appended - one.appended == timedelta(seconds=1)
    assert log.records(Topic.SESSIONS) == []


@pytest.mark.parametrize(("key", "murmur2"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)])
async def test_the_partition_is_that_of_java_clients(key, murmur2):
    """The hashes are those of Apache Kafka's own tests; Java takes the sign bit off."""
    assert MemoryLog(12).append(message(Topic.CONVERSATIONS, key)).partition == (murmur2 & 0x7FFFFFFF) % 12


async def test_a_given_partition_is_kept_and_a_wrong_one_refused():
    log = MemoryLog(4)
    assert log.append(message(Topic.CONVERSATIONS, b"k", partition=3)).partition == 3
    assert log.append(message(Topic.CONVERSATIONS, None)).partition == 0
    with pytest.raises(ValueError, match="no partition 4"):
        log.append(message(Topic.CONVERSATIONS, b"k", partition=4))
    with pytest.raises(ValueError, match="nonsense"):
        log.append(message("nonsense", b"k"))


async def test_the_pump_runs_until_nothing_is_left():
    log, trail = MemoryLog(4), []
    consumer = MemoryConsumer(log)
    consumer.subscribe("intake", [Topic.CONVERSATIONS], forward(log, Topic.SESSIONS, trail))
    consumer.subscribe("segment", [Topic.SESSIONS], forward(log, Topic.SEGMENTS, trail))
    consumer.subscribe("compress", [Topic.SEGMENTS], forward(log, None, trail))
    await log.publish([message(Topic.CONVERSATIONS, b"k", b"1"), message(Topic.CONVERSATIONS, b"k", b"2")])
    assert await consumer.run_until_idle() == 6
    way = [Topic.CONVERSATIONS, Topic.SESSIONS, Topic.SEGMENTS]
    assert trail == [(topic, b"1") for topic in way] + [(topic, b"2") for topic in way]
    assert await consumer.run_until_idle() == 0
    await log.publish([message(Topic.CONVERSATIONS, b"k", b"3")])
    assert await consumer.run_until_idle() == 3


async def test_every_run_has_the_same_order():
    async def run():
        log, trail = MemoryLog(4, lambda: START), []
        consumer = MemoryConsumer(log)
        consumer.subscribe("intake", [Topic.CONVERSATIONS], forward(log, Topic.SESSIONS, trail))
        consumer.subscribe("segment", [Topic.SESSIONS], forward(log, None, trail))
        await log.publish([message(Topic.CONVERSATIONS, b"key%d" % i, b"%d" % i) for i in range(50)])
        await consumer.run_until_idle()
        return trail, log.records(Topic.SESSIONS)

    first = await run()
    assert len(first[0]) == 100
    assert first == await run()


async def test_every_stage_has_all_records_of_its_topics():
    log, one, other = MemoryLog(4), [], []
    consumer = MemoryConsumer(log)
    consumer.subscribe("one", [Topic.SESSIONS, Topic.SEGMENTS], forward(log, None, one))
    consumer.subscribe("other", [Topic.SESSIONS], forward(log, None, other))
    await log.publish([message(Topic.SESSIONS, b"k", b"s"), message(Topic.SEGMENTS, b"k", b"g")])
    await consumer.run_until_idle()
    assert sorted(value for _, value in one) == [b"g", b"s"]
    assert [value for _, value in other] == [b"s"]


async def test_what_a_handler_did_not_finish_comes_again():
    log, tries = MemoryLog(1), []
    consumer = MemoryConsumer(log)

    async def fails_once(record, lease):
        tries.append(record.offset)
        if tries.count(record.offset) == 1 and record.offset == 1:
            raise RuntimeError("crash")

    consumer.subscribe("intake", [Topic.CONVERSATIONS], fails_once)
    await log.publish([message(Topic.CONVERSATIONS, b"k")] * 3)
    with pytest.raises(RuntimeError, match="crash"):
        await consumer.run_until_idle()
    await consumer.run_until_idle()
    assert tries == [0, 1, 1, 2]


async def test_a_handler_that_waits_lets_the_others_go_on():
    log, done = MemoryLog(1), []
    consumer = MemoryConsumer(log)

    async def waits(record, lease):
        assert not lease.revoked
        while not done:
            await lease.pause(0.05)
        done.append("waited")

    async def brings(record, lease):
        done.append("brought")

    consumer.subscribe("brings", [Topic.SESSIONS], brings)
    consumer.subscribe("waits", [Topic.REPLY_REQUESTS], waits)
    await log.publish([message(Topic.SESSIONS, b"k"), message(Topic.REPLY_REQUESTS, b"k")])
    assert await asyncio.wait_for(consumer.run_until_idle(), 10) == 2
    assert done == ["brought", "waited"]


async def test_a_handler_that_waits_for_nothing_is_told():
    log, slept = MemoryLog(1), []

    async def sleep(seconds):
        slept.append(seconds)

    async def waits(record, lease):
        while True:
            await lease.pause(0.05)

    consumer = MemoryConsumer(log, sleep, max_pauses=100)
    consumer.subscribe("respond", [Topic.SESSIONS], waits)
    await log.publish([message(Topic.SESSIONS, b"k")])
    with pytest.raises(Deadlock, match="respond paused 100 times"):
        await consumer.run_until_idle()
    assert slept == [0.05] * 100
