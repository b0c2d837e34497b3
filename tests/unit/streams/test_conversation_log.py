"""The log of a conversation is read on, not again; one pass over a partition serves those that come next."""

from collections import Counter
from dataclasses import replace

import pytest

from eunoe.streams.log_reader import ConversationLogs, log_topics
from eunoe.streams.record import Record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic, TopicNames
from tests.support.read_topics import SEALED, ReadTopics

MANY = [f"acme/c{number}" for number in range(20)]


def record(topic: Topic, offset: int, key: str = "acme/c", partition: int = 0) -> Record:
    return Record(topic, partition, offset, key.encode(), b"x" * 500, 0, {})


def logs(broker: ReadTopics, names: TopicNames = SEALED, partitions: int = 1) -> ConversationLogs:
    return ConversationLogs(broker, names, partitions)


@pytest.mark.parametrize("door_ms", [None, 60_000])
async def test_each_read_has_all_and_asks_for_what_is_new(door_ms: int | None):
    broker = ReadTopics()
    log = logs(broker, TopicNames(door_ms=door_ms))
    first = [record(Topic.CONVERSATIONS, 3), record(Topic.CONVERSATIONS, 5)]
    broker.held[Topic.CONVERSATIONS] += [*first, record(Topic.CONVERSATIONS, 6, "acme/other")]
    assert await log.stored("acme/c") == first
    broker.held[Topic.CONVERSATIONS].clear()  # as by retention
    assert await log.stored("acme/c") == first
    copied, later = record(Topic.LOG, 0), record(Topic.CONVERSATIONS, 7)
    broker.held[Topic.LOG].append(copied)
    broker.held[Topic.CONVERSATIONS].append(later)
    sealed = [] if door_ms is None else [copied]
    assert await log.stored("acme/c") == [*sealed, *first, later]


def filled(partitions: int = 3) -> ReadTopics:
    broker, offsets = ReadTopics(), Counter[tuple[Topic, int]]()
    for _ in range(3):
        for key in MANY:
            for topic in log_topics(SEALED):
                place = partition_of(key.encode(), partitions)
                broker.held[topic].append(record(topic, offsets[topic, place], key, place))
                offsets[topic, place] += 1
    return broker


async def test_a_partition_is_read_once_for_all_conversations_that_come_next():
    broker = filled()
    log = logs(broker, partitions=3)
    log.reading.expect(MANY)
    for key in MANY:
        for _ in range(3):
            found = await log.stored(key)
            assert (len(found), {one.key for one in found}) == (6, {key.encode()})
        log.reading.release(key)
    assert broker.read == {topic: 3 * len(MANY) for topic in log_topics(SEALED)}


async def test_what_came_since_is_among_the_records_of_each_that_comes_next():
    broker = filled(1)
    log = logs(broker)
    log.reading.expect(MANY)
    assert len(await log.stored(MANY[0])) == 6
    for number, key in enumerate(MANY):
        broker.held[Topic.LOG].append(record(Topic.LOG, 60 + number, key))
    for key in reversed(MANY):
        assert [one.offset for one in await log.stored(key) if one.topic == Topic.LOG][-1] == 60 + MANY.index(key)
    assert broker.read[Topic.LOG] == 60 + len(MANY)


@pytest.mark.parametrize("kept", [0, 7_000, 20_000])
async def test_no_more_is_kept_than_may_be_and_nothing_is_missing(kept: int):
    broker = filled(1)
    log = logs(broker)
    log.reading.max_kept = kept
    log.reading.expect(MANY)
    for key in MANY:
        assert len(await log.stored(key)) == 6
        assert len(await log.stored(key)) == 6
        assert log.reading._bytes <= max(kept, 6_000) + 1_000
        assert log.reading._bytes == sum(log.reading._kept.values())
        log.reading.release(key)
    assert log.reading._bytes == 0
    assert broker.read[Topic.LOG] <= 60 * len(MANY), "once for each at most"


async def test_conversations_that_nobody_announced_are_read_one_after_the_other():
    broker = filled(1)
    log = logs(broker)
    for key in MANY[:3]:
        assert len(await log.stored(key)) == 6
    assert list(log.reading._kept) == [MANY[2]]
    later = replace(broker.held[Topic.LOG][0], offset=60)
    broker.held[Topic.LOG].append(later)
    assert len(await log.stored(MANY[0])) == 7
