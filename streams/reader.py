"""Readers of whole topics, from begin to present end, without a group."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.access import how_to_see_topics
from eunoe.streams.admin import settled_topics
from eunoe.streams.plain_consumer import as_record, broker_faults, end_offsets, open_consumer
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

_POLL_MS = 1000
_SILENT_POLLS = 60


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The offsets of one partition from ``begin`` up to ``end``, which is excluded."""

    partition: TopicPartition
    begin: int
    end: int


async def read_all(
    kafka: KafkaSettings, names: TopicNames, topic: str, *, begin: Mapping[int, int] | None = None
) -> AsyncGenerator[Record]:
    """All records that a topic holds at the call: partition after partition, each in the order of its offsets.

    ``begin`` gives the first offset to read, by partition; the default is the first one in the log. It commits nothing
    and holds a few megabytes at most. Raises `Unavailable` when no broker answers, `Refused` where the topic does not
    exist.
    """
    (partitions,) = await partitions_of(kafka, names, [Topic(topic)])
    async with open_consumer(kafka, brief=True) as consumer:
        all_ = [TopicPartition(names.name(topic), partition) for partition in range(partitions)]
        for stretch in await _stretches(kafka, consumer, all_, begin or {}):
            async with aclosing(_read_stretch(kafka, consumer, stretch)) as stored:
                async for found in stored:
                    yield as_record(topic, found)


async def read_one(kafka: KafkaSettings, names: TopicNames, topic: str, place: tuple[int, int]) -> Record | None:
    """The record at ``place``, a partition and an offset; `None` where the topic does not hold it.

    Raises `Unavailable` when no broker answers, `Refused` where the topic does not exist.
    """
    partition, offset = place
    (partitions,) = await partitions_of(kafka, names, [Topic(topic)])
    if partition >= partitions:
        return None
    async with open_consumer(kafka, brief=True) as consumer:
        where = TopicPartition(names.name(topic), partition)
        (whole,) = await _stretches(kafka, consumer, [where], {})
        if whole.begin <= offset < whole.end:
            async with aclosing(_read_stretch(kafka, consumer, _Stretch(where, offset, offset + 1))) as stored:
                async for found in stored:
                    return as_record(topic, found)
    return None


async def read_partition(kafka: KafkaSettings, names: TopicNames, topic: str, partition: int) -> AsyncGenerator[Record]:
    """The records that one partition of a topic holds at the call.

    Raises as `read_all` does.
    """
    await partitions_of(kafka, names, [Topic(topic)])
    async with open_consumer(kafka, brief=True) as consumer:
        where = TopicPartition(names.name(topic), partition)
        (stretch,) = await _stretches(kafka, consumer, [where], {})
        async with aclosing(_read_stretch(kafka, consumer, stretch)) as stored:
            async for found in stored:
                yield as_record(topic, found)


async def read_news(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, topic: str, begin: Mapping[TopicPartition, int]
) -> AsyncGenerator[Record]:
    """The records that partitions of a topic hold at the call, each from an offset on, by a consumer that is open.

    Where nothing is new the broker is asked for the ends alone. Raises `Unavailable` when no broker answers.
    """
    ends = await end_offsets(kafka, consumer, list(begin))
    grown = [place for place, offset in begin.items() if offset < ends[place]]
    if not grown:
        return
    with broker_faults(kafka):
        firsts = await consumer.beginning_offsets(grown)
    for place in grown:
        stretch = _Stretch(place, max(firsts[place], begin[place]), ends[place])
        async with aclosing(_read_stretch(kafka, consumer, stretch)) as stored:
            async for found in stored:
                yield as_record(topic, found)


async def read_range(
    kafka: KafkaSettings, names: TopicNames, topic: str, partition: int, offsets: tuple[int, int]
) -> AsyncGenerator[Record]:
    """The records of one partition from the first offset up to the second, which is excluded.

    Offsets that the log no longer holds, or not yet, are left out. Raises `Unavailable` when no broker answers.
    """
    first, end = offsets
    async with open_consumer(kafka, brief=True) as consumer:
        where = TopicPartition(names.name(topic), partition)
        (whole,) = await _stretches(kafka, consumer, [where], {partition: first})
        part = _Stretch(where, whole.begin, min(end, whole.end))
        async with aclosing(_read_stretch(kafka, consumer, part)) as stored:
            async for found in stored:
                yield as_record(topic, found)


async def offset_at(kafka: KafkaSettings, names: TopicNames, topic: str, partition: int, time_ms: int) -> int:
    """The first offset at or after a time (milliseconds since 1970); the end where nothing is later.

    Raises `Unavailable` when no broker answers.
    """
    where = TopicPartition(names.name(topic), partition)
    async with open_consumer(kafka, brief=True) as consumer:
        with broker_faults(kafka):
            found = (await consumer.offsets_for_times({where: max(0, time_ms)}))[where]  # Kafka knows no earlier one
        if found is not None and found.timestamp >= 0:  # a broker may say offset 0, time -1 where nothing is later
            return int(found.offset)
        return (await end_offsets(kafka, consumer, [where]))[where]


async def topic_size(kafka: KafkaSettings, names: TopicNames, topic: str) -> int:
    """Number of records in a topic; raises `Unavailable` when no broker answers, `Refused` for a missing topic."""
    (partitions,) = await partitions_of(kafka, names, [Topic(topic)])
    all_ = [TopicPartition(names.name(topic), partition) for partition in range(partitions)]
    async with open_consumer(kafka, brief=True) as consumer:
        return sum(stretch.end - stretch.begin for stretch in await _stretches(kafka, consumer, all_, {}))


async def partitions_of(kafka: KafkaSettings, names: TopicNames, topics: Sequence[Topic]) -> list[int]:
    """Number of partitions of each topic at the broker; the request creates no topic.

    Raises `Unavailable` when no broker answers, `Refused` where a topic does not exist.
    """
    found = {status.topic: status for status in await settled_topics(kafka, names, topics)}
    missing = [names.name(topic) for topic in topics if topic not in found or not found[topic].partitions]
    if missing:
        raise Refused(f"topics missing: {', '.join(missing)} at {kafka.server}; {how_to_see_topics(kafka)}")
    return [found[topic].partitions for topic in topics]


async def _stretches(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], begin: Mapping[int, int]
) -> list[_Stretch]:
    ends = await end_offsets(kafka, consumer, partitions)
    with broker_faults(kafka):
        firsts = await consumer.beginning_offsets(partitions)
    return [_Stretch(one, max(firsts[one], begin.get(one.partition, 0)), ends[one]) for one in partitions]


async def _read_stretch(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, stretch: _Stretch
) -> AsyncGenerator[ConsumerRecord]:
    if stretch.begin >= stretch.end:
        return
    consumer.assign([stretch.partition])
    consumer.seek(stretch.partition, stretch.begin)
    silent = 0
    while (position := await consumer.position(stretch.partition)) < stretch.end:
        with broker_faults(kafka):
            batches = await consumer.getmany(timeout_ms=_POLL_MS)
        silent = 0 if batches else silent + 1
        if silent >= _SILENT_POLLS:
            where = f"{stretch.partition.topic}/{stretch.partition.partition}"
            raise Unavailable(f"no records from {kafka.server} at {where}@{position}, which ends at {stretch.end}")
        for found in batches.get(stretch.partition, ()):
            if found.offset < stretch.end:
                yield found
