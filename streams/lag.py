"""The ends of topics, and the lag of stages behind them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition

from eunoe.streams.admin import open_admin, partition_counts
from eunoe.streams.plain_consumer import broker_faults, end_offsets, open_consumer
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

Ends = Mapping[TopicPartition, int]
"""Partition → the offset after its last record."""


async def ends_now(kafka: KafkaSettings, names: TopicNames, topics: Iterable[str]) -> Ends:
    """The ends of these logical topics. Raises `Unavailable`."""
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
    wanted = sorted({names.name(topic) for topic in topics})
    _, ends = await _bounds(kafka, [TopicPartition(name, at) for name in wanted for at in range(counts.get(name, 0))])
    return ends


async def lag(
    kafka: KafkaSettings, names: TopicNames, stages: Mapping[str, Sequence[str]], until: Ends | None = None
) -> dict[str, int]:
    """Number of records that each stage's group has not committed; ``stages`` gives the logical topics of each stage.

    Records count up to ``until``; `None` means up to the present ends. Raises `Unavailable`.
    """
    wanted = {names.name(topic) for topics in stages.values() for topic in topics}
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
        partitions = [TopicPartition(name, number) for name in sorted(wanted) for number in range(counts.get(name, 0))]
        starts, ends = await _bounds(kafka, partitions)
        if until is not None:
            ends = {partition: min(end, until.get(partition, end)) for partition, end in ends.items()}
        return {
            stage: await _lag_of(admin, names.group(stage), _of(partitions, names, topics), starts, ends)
            for stage, topics in stages.items()
        }


def _of(partitions: Iterable[Any], names: TopicNames, topics: Sequence[str]) -> list[Any]:
    wanted = {names.name(topic) for topic in topics}
    return [partition for partition in partitions if partition.topic in wanted]


async def _lag_of(
    admin: Any,  # noqa: ANN401
    group: str,
    partitions: list[Any],
    starts: Mapping[Any, int],
    ends: Mapping[Any, int],
) -> int:
    if not partitions:
        return 0
    committed = await admin.list_consumer_group_offsets(group, partitions=partitions)
    behind = 0
    for partition in partitions:
        at = committed[partition].offset if partition in committed else -1
        behind += max(ends[partition] - max(at, starts[partition]), 0)
    return behind


async def _bounds(kafka: KafkaSettings, partitions: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    if not partitions:
        return {}, {}
    async with open_consumer(kafka, brief=True) as consumer:
        with broker_faults(kafka):
            starts: dict[Any, int] = await consumer.beginning_offsets(partitions)
        return starts, await end_offsets(kafka, consumer, partitions)
