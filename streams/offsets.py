"""Start offsets for the consumer groups of a generation."""

from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from eunoe.streams.plain_consumer import broker_faults, end_offsets, open_consumer
from eunoe.streams.settings import KafkaSettings, client_options
from eunoe.streams.topics import TopicNames

Offsets = Mapping[tuple[str, int], int]
"""(logical topic, partition) → next offset to read."""


async def ends_of(kafka: KafkaSettings, names: TopicNames, topics: Sequence[str], partitions: int) -> Offsets:
    """The offsets after the last records of the topics. Raises `Unavailable`."""
    of_topic = {TopicPartition(names.name(topic), number): topic for topic in topics for number in range(partitions)}
    async with open_consumer(kafka, brief=True) as consumer:
        ends = await end_offsets(kafka, consumer, list(of_topic))
    return {(topic, partition.partition): ends[partition] for partition, topic in of_topic.items()}


async def commit_offsets(kafka: KafkaSettings, names: TopicNames, stage: str, offsets: Offsets) -> None:
    """Commit start offsets for a stage's group, which must have no members. Raises `Unavailable`."""
    committed = {TopicPartition(names.name(topic), number): offset for (topic, number), offset in offsets.items()}
    with broker_faults(kafka):
        consumer = AIOKafkaConsumer(**client_options(kafka), group_id=names.group(stage), enable_auto_commit=False)
        try:
            await consumer.start()
            consumer.assign(list(committed))
            await consumer.commit(committed)
        finally:
            await consumer.stop()
