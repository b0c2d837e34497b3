"""Where the groups of a generation begin."""

from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from eunoe.streams.plain_consumer import broker_faults, end_offsets, open_consumer
from eunoe.streams.settings import KafkaSettings, client_options
from eunoe.streams.topics import TopicNames

Offsets = Mapping[tuple[str, int], int]
"""(logical topic, partition) → the offset to read next."""


async def ends_of(kafka: KafkaSettings, names: TopicNames, topics: Sequence[str], partitions: int) -> Offsets:
    """Where the topics end now. Raises `Unavailable`."""
    places = {TopicPartition(names.name(topic), number): topic for topic in topics for number in range(partitions)}
    async with open_consumer(kafka, brief=True) as consumer:
        ends = await end_offsets(kafka, consumer, list(places))
    return {(topic, place.partition): ends[place] for place, topic in places.items()}


async def commit_offsets(kafka: KafkaSettings, names: TopicNames, stage: str, offsets: Offsets) -> None:
    """Let a stage's group, of which no member lives, begin at these offsets. Raises `Unavailable`."""
    places = {TopicPartition(names.name(topic), number): offset for (topic, number), offset in offsets.items()}
    with broker_faults(kafka):
        consumer = AIOKafkaConsumer(**client_options(kafka), group_id=names.group(stage), enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(list(places))
            await consumer.commit(places)
        finally:
            await consumer.stop()
