"""Apache Kafka as our tests and developers run it, and what eunoe's producers make of it."""

import asyncio
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.generations.promotion import check_workers, promote
from eunoe.deploy.generations.rebuild.answers import AnswersFile
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.admin import create_topics
from eunoe.streams.codec import encode
from eunoe.streams.groups import delete_groups, groups_with_members
from eunoe.streams.publisher import KafkaPublisher, MessageTooLarge
from eunoe.streams.reader import read_all
from eunoe.streams.record import Message
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.generations import Generation, GenerationState, RedisGenerations
from tests.support import given
from tests.support.apache import FILES
from tests.support.command import until
from tests.support.kafka.cluster import KafkaCluster
from tests.support.session import SessionServers
from tests.support.tansu import settings

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

PARTITIONS = 2
_HEAD = struct.Struct(">qiiBIhiqqqhii")
"""A record batch, version 2, up to its records: offset, length, …, producer, its epoch, first sequence, records."""


def batches(log: Path) -> Iterator[tuple[int, int, int]]:
    """Of each batch in a broker's file: the producer's id, the first sequence number, how many records."""
    left = log.read_bytes()
    while left:
        _, length, *_, producer, _, sequence, records = _HEAD.unpack_from(left)
        yield producer, sequence, records
        left = left[length + 12 :]


def numbered(count: int, first: int = 0) -> list[Message]:
    return [Message(Topic.SESSIONS, b"k%d" % (number % 9), b"%d" % number) for number in range(first, first + count)]


async def numbers(kafka: KafkaSettings, names: TopicNames) -> list[int]:
    return sorted([int(record.value) async for record in read_all(kafka, names, Topic.SESSIONS)])


async def _are_in_sync(cluster: KafkaCluster, names: TopicNames, brokers: set[int]) -> bool:
    """Whether these brokers, and no other, have all of each partition."""
    return await cluster.in_sync(names.name(Topic.SESSIONS)) == dict.fromkeys(range(PARTITIONS), brokers)


@pytest.mark.needs("idempotence", "broker-files")
async def test_what_the_publisher_sends_is_numbered_so_that_a_repetition_is_known(servers: SessionServers):
    kafka, names = settings(servers.kafka), TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, names, 1)
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    for first in range(0, 300, 100):
        await publisher.publish(numbered(100, first))
    await publisher.stop()
    (log,) = (Path(os.environ[FILES]) / f"{names.name(Topic.SESSIONS)}-0").glob("*.log")
    found = list(batches(log))
    assert {producer >= 0 for producer, _, _ in found} == {True}, "no producer's id: not idempotent"
    assert len({producer for producer, _, _ in found}) == 1
    expected = 0
    for _, sequence, records in found:
        assert sequence == expected
        expected += records
    assert expected == 300


async def configure(kafka: KafkaSettings, topic: str, **options: str) -> None:
    """Set options of a topic, their dots written as underscores."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.servers)
    await admin.start()
    try:
        wanted = {name.replace("_", "."): value for name, value in options.items()}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
    finally:
        await admin.close()


async def compact_soon(kafka: KafkaSettings, topic: str) -> None:
    """Let a compacted topic be compacted while one looks on: only what stands in its last segment is left alone."""
    await configure(kafka, topic, cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.001")


@pytest.mark.needs("idempotence", "broker-files")
async def test_what_a_broker_refuses_does_not_close_its_partition_to_the_publisher(servers: SessionServers):
    kafka, names = settings(servers.kafka), TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, names, 1)
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    try:
        await publisher.publish(numbered(10))
        await configure(kafka, names.name(Topic.SESSIONS), max_message_bytes="2000")
        with pytest.raises(MessageTooLarge, match=r"raise the topic's max\.message\.bytes"):
            await until(lambda: _is_taken(publisher, Message(Topic.SESSIONS, b"k", b"99", (("x", b"x" * 9_000),))))
        await publisher.publish(numbered(10, 10))
    finally:
        await publisher.stop()
    taken = [number for number in await numbers(kafka, names) if number < 20]
    assert taken == list(range(20))


async def _is_taken(publisher: KafkaPublisher, message: Message) -> bool:
    """False: asked again, because a broker takes up the options of a topic with a delay."""
    await publisher.publish([message])
    return False


@pytest.mark.needs("idempotence", "broker-files")
async def test_a_generation_is_promoted_only_with_workers_of_the_stages_that_clients_wait_for(servers: SessionServers):
    live = servers.settings(1)
    asked = live.model_copy(update={"generation": "v2"})
    made = Generation(name="v2", state=GenerationState.BUILT, made_at=datetime.now(UTC), source="v1")
    for names in (live.names, asked.names):
        await create_topics(live.kafka_settings, names, 1)
    async with open_redis(live) as redis:
        registry = RedisGenerations(redis, live.prefix)
        await registry.begin("v1")
        await registry.write(made)
    async with AsyncExitStack() as closing:
        for stage, lacking in (("intake", "blend, respond"), ("blend", "respond"), ("respond", "")):
            topics = [asked.names.name(topic) for topic in STAGES[stage].inputs]
            consumer = AIOKafkaConsumer(
                *topics, bootstrap_servers=asked.kafka_settings.servers, group_id=asked.names.group(stage)
            )
            await consumer.start()
            closing.push_async_callback(consumer.stop)
            if lacking:
                with pytest.raises(
                    Refused, match=rf"^v2 has no workers of {lacking}, for which .*EUNOE_GENERATION=v2 "
                ):
                    await promote(live, "v2", lambda _left: None)
        assert await promote(live, "v2", lambda _left: None) == "v1"
    with pytest.raises(Refused, match="no workers of intake, blend, respond"):
        await check_workers(asked)


@pytest.mark.needs("three-brokers")
async def test_without_a_quorum_a_publisher_neither_starts_nor_stops_for_ever():
    async with KafkaCluster(3) as cluster:
        kafka = KafkaSettings(bootstrap=cluster.bootstrap, request_timeout_ms=3_000)
        names = TopicNames(prefix=given.own_prefix())
        await create_topics(kafka, names, 1, replication=3)
        await cluster.kill(2)
        await cluster.kill(3)
        publisher = KafkaPublisher(kafka, names)
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="not started within 12 s"):
                await publisher.start()
        await cluster.restart(2)
        await publisher.start()
        for pid in cluster.pids.values():
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(Unavailable):
            await publisher.publish(numbered(1))
        async with asyncio.timeout(20):
            await publisher.stop()


@pytest.mark.needs("compaction")
async def test_of_recorded_answers_the_last_of_each_request_outlives_compaction(
    servers: SessionServers, tmp_path: Path
):
    requests = [f"request-{number}" for number in range(20)]
    kafka = settings(servers.kafka)
    asked = Settings(kafka=servers.kafka, prefix=given.own_prefix())
    await create_topics(kafka, asked.names, 1)
    await compact_soon(kafka, asked.names.name(Topic.ANSWERS))
    publisher = KafkaPublisher(kafka, asked.names)
    await publisher.start()

    async def record(request: str, text: str) -> None:
        answer = RecordedAnswer(request=request, text=text)
        await publisher.publish([Message(Topic.ANSWERS, request.encode(), encode(answer))])

    async def compacted() -> bool:
        await record("another", "so that a segment ends")
        kept = [record.key async for record in read_all(kafka, asked.names, Topic.ANSWERS)]
        return all(kept.count(request.encode()) == 1 for request in requests)

    try:
        for text in ("first", "second", "last"):
            for request in requests:
                await record(request, text)
        await until(compacted, 120)
    finally:
        await publisher.stop()
    answers = AnswersFile(tmp_path / "answers")
    await answers.read(asked, lambda _read: None)
    assert [await answers.get(request) for request in requests] == ["last"] * len(requests)
    answers.close()


@pytest.mark.needs("three-brokers")
async def test_three_brokers_lose_one_after_the_other_and_a_publisher_goes_on():
    async with KafkaCluster(3) as cluster:
        kafka, names = KafkaSettings(bootstrap=cluster.bootstrap), TopicNames(prefix=given.own_prefix())
        await create_topics(kafka, names, PARTITIONS, replication=3)
        await until(lambda: _are_in_sync(cluster, names, {1, 2, 3}))
        with pytest.raises(Refused, match="broker 2 runs"):
            await cluster.restart(2)
        publisher = KafkaPublisher(kafka, names)
        await publisher.start()
        try:
            for first in range(0, 200, 20):
                if first == 100:
                    os.kill(cluster.pids[2], signal.SIGKILL)
                await publisher.publish(numbered(20, first))
            await until(lambda: _are_in_sync(cluster, names, {1, 3}))  # the broker that is asked may hear of it later
            assert set(cluster.pids) == {1, 3}
            await cluster.restart(2)
            await until(lambda: _are_in_sync(cluster, names, {1, 2, 3}))
            await cluster.kill(3)
            await publisher.publish(numbered(20, 200))
        finally:
            await publisher.stop()
        assert await numbers(kafka, names) == list(range(220))


@pytest.mark.needs("idempotence", "broker-files")
async def test_a_group_is_named_while_it_has_members_and_deleted_afterwards(servers: SessionServers):
    kafka, names = settings(servers.kafka), TopicNames(prefix=given.own_prefix())
    await create_topics(kafka, names, 1)
    groups = [names.group("update"), names.group("link")]
    consumer = AIOKafkaConsumer(names.name(Topic.SESSIONS), bootstrap_servers=kafka.servers, group_id=groups[0])
    await consumer.start()
    try:
        assert await groups_with_members(kafka, groups) == [groups[0]]
        with pytest.raises(Refused, match=f"{groups[0]}: NonEmptyGroup"):
            await delete_groups(kafka, groups)
    finally:
        await consumer.stop()
    assert await groups_with_members(kafka, groups) == []
    await delete_groups(kafka, groups)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.servers)
    await admin.start()
    found = [group for group, *_ in await admin.list_consumer_groups()]
    await admin.close()
    assert not set(groups) & set(found)
