"""The ends of topics, and the lag of stages behind them."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition

from eunoe.streams.admin import open_admin, partition_counts
from eunoe.streams.plain_consumer import broker_faults, end_offsets, open_consumer
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

_POLL_MS = 100

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
    kafka: KafkaSettings,
    names: TopicNames,
    stages: Mapping[str, Sequence[str]],
    until: Ends | None = None,
    *,
    reads: bool = False,
) -> dict[str, int]:
    """Number of records that each stage's group has not committed; ``stages`` gives the logical topics of each stage.

    Records count up to ``until``; `None` means up to the present ends. Offsets without a record for consumers, as the
    end of a transaction and what it aborted have, count too, unless ``reads``: then each count begins at the next
    record, which is read. Raises `Unavailable`.
    """
    wanted = {names.name(topic) for topics in stages.values() for topic in topics}
    async with open_admin(kafka) as admin:
        counts = await partition_counts(admin)
        partitions = [TopicPartition(name, number) for name in sorted(wanted) for number in range(counts.get(name, 0))]
        starts, ends = await _bounds(kafka, partitions)
        if until is not None:
            ends = {partition: min(end, until.get(partition, end)) for partition, end in ends.items()}
        return {
            stage: await _lag_of(
                await _places(admin, names.group(stage), _of(partitions, names, topics), starts),
                ends,
                kafka if reads else None,
            )
            for stage, topics in stages.items()
        }


def _of(partitions: Iterable[Any], names: TopicNames, topics: Sequence[str]) -> list[Any]:
    wanted = {names.name(topic) for topic in topics}
    return [partition for partition in partitions if partition.topic in wanted]


async def _places(
    admin: Any,  # noqa: ANN401
    group: str,
    partitions: list[Any],
    starts: Mapping[Any, int],
) -> dict[Any, int]:
    """The offset with which a group goes on in each partition."""
    if not partitions:
        return {}
    committed = await admin.list_consumer_group_offsets(group, partitions=partitions)
    return {one: max(committed[one].offset if one in committed else -1, starts[one]) for one in partitions}


async def _lag_of(places: Mapping[Any, int], ends: Ends, reads: KafkaSettings | None) -> int:
    behind = {partition: at for partition, at in places.items() if at < ends[partition]}
    if reads is not None and behind:
        behind = await _next_records(reads, behind, ends)
    return sum(ends[partition] - at for partition, at in behind.items())


async def _next_records(kafka: KafkaSettings, places: Mapping[Any, int], ends: Ends) -> dict[Any, int]:
    """The offset of the first record at or behind each place, the end where there is none before it.

    A place stays as it is where that is not known in time, as behind a transaction that is open.
    """
    found: dict[Any, int] = {}
    async with open_consumer(kafka, brief=True) as consumer:
        consumer.assign(list(places))
        for partition, at in places.items():
            consumer.seek(partition, at)
        with broker_faults(kafka), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(kafka.request_timeout_ms / 1000):
                while waiting := [partition for partition in places if partition not in found]:
                    records = await consumer.getmany(*waiting, timeout_ms=_POLL_MS, max_records=len(waiting))
                    found |= {one: min(batch[0].offset, ends[one]) for one, batch in records.items() if batch}
                    consumer.pause(*found)
                    for partition in waiting:
                        if partition not in found and await consumer.position(partition) >= ends[partition]:
                            found[partition] = ends[partition]
    return {**places, **found}


async def _bounds(kafka: KafkaSettings, partitions: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    if not partitions:
        return {}, {}
    async with open_consumer(kafka, brief=True) as consumer:
        with broker_faults(kafka):
            starts: dict[Any, int] = await consumer.beginning_offsets(partitions)
        return starts, await end_offsets(kafka, consumer, partitions)
