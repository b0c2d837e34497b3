"""Reads a whole topic, up to where it ends now."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.admin import list_topics
from eunoe.streams.plain_consumer import as_record, broker_faults, end_offsets, open_consumer
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

_POLL_MS = 1000
_SILENT_POLLS = 60


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The offsets of one partition from ``begin`` up to ``end``, which is not included."""

    place: TopicPartition
    begin: int
    end: int


async def read_all(
    kafka: KafkaSettings, names: TopicNames, topic: str, *, begin: Mapping[int, int] | None = None
) -> AsyncIterator[Record]:
    """Every record that a topic holds as this is called: partition after partition, each in the order of its offsets.

    ``begin`` gives the offset to begin with, by partition; the first one there is where it names none. Belongs to
    no group, commits nothing, and holds a few megabytes at most. Raises `Unavailable` when no broker answers,
    `Refused` where the topic does not exist.
    """
    (partitions,) = await partitions_of(kafka, names, [Topic(topic)])
    async with open_consumer(kafka, brief=True) as consumer:
        places = [TopicPartition(names.name(topic), partition) for partition in range(partitions)]
        for stretch in await _stretches(kafka, consumer, places, begin or {}):
            async for found in _read_stretch(kafka, consumer, stretch):
                yield as_record(topic, found)


async def read_one(kafka: KafkaSettings, names: TopicNames, topic: str, place: tuple[int, int]) -> Record | None:
    """The record at ``place``, a partition and an offset; None where it is not there (any more).

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
            async for found in _read_stretch(kafka, consumer, _Stretch(where, offset, offset + 1)):
                return as_record(topic, found)
    return None


async def read_partition(kafka: KafkaSettings, names: TopicNames, topic: str, partition: int) -> AsyncIterator[Record]:
    """Every record that one partition of a topic holds as this is called; raises as `read_all` does."""
    await partitions_of(kafka, names, [Topic(topic)])
    async with open_consumer(kafka, brief=True) as consumer:
        (stretch,) = await _stretches(kafka, consumer, [TopicPartition(names.name(topic), partition)], {})
        async for found in _read_stretch(kafka, consumer, stretch):
            yield as_record(topic, found)


async def topic_size(kafka: KafkaSettings, names: TopicNames, topic: str) -> int:
    """How many records a topic holds. Raises `Unavailable` when no broker answers, `Refused` where there is none."""
    (partitions,) = await partitions_of(kafka, names, [Topic(topic)])
    places = [TopicPartition(names.name(topic), partition) for partition in range(partitions)]
    async with open_consumer(kafka, brief=True) as consumer:
        return sum(stretch.end - stretch.begin for stretch in await _stretches(kafka, consumer, places, {}))


async def partitions_of(kafka: KafkaSettings, names: TopicNames, topics: Sequence[Topic]) -> list[int]:
    """How many partitions each of the topics has at the broker; asking creates none.

    Raises `Unavailable` when no broker answers, `Refused` where a topic does not exist.
    """
    found = {status.topic: status for status in await list_topics(kafka, names)}
    missing = [found[topic].name for topic in topics if not found[topic].partitions]
    if missing:
        raise Refused(f"no topic {', '.join(missing)} at {kafka.bootstrap}: run `eunoe topics create`")
    return [found[topic].partitions for topic in topics]


async def _stretches(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, places: Sequence[TopicPartition], begin: Mapping[int, int]
) -> list[_Stretch]:
    ends = await end_offsets(kafka, consumer, places)
    with broker_faults(kafka):
        firsts = await consumer.beginning_offsets(places)
    return [_Stretch(place, max(firsts[place], begin.get(place.partition, 0)), ends[place]) for place in places]


async def _read_stretch(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, stretch: _Stretch
) -> AsyncIterator[ConsumerRecord]:
    if stretch.begin >= stretch.end:
        return
    consumer.assign([stretch.place])
    consumer.seek(stretch.place, stretch.begin)
    silent = 0
    while (position := await consumer.position(stretch.place)) < stretch.end:
        with broker_faults(kafka):
            batches = await consumer.getmany(timeout_ms=_POLL_MS)
        silent = 0 if batches else silent + 1
        if silent >= _SILENT_POLLS:
            where = f"{stretch.place.topic}/{stretch.place.partition}"
            raise Unavailable(f"Kafka at {kafka.bootstrap}: {where} gives nothing at {position} of {stretch.end}")
        for found in batches.get(stretch.place, ()):
            if found.offset < stretch.end:
                yield found
