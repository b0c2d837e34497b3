"""Ends of partitions, read over a connection of their own: a stalled consumer takes its position for the end."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import TopicPartition

from eunoe.streams.group.partition import LogicalPartition
from eunoe.streams.plain_consumer import broker_faults, open_consumer
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames


class EndWatch:
    """Reads the ends of partitions; connects at the first call, and again after a fault.

    The broker's latest offsets are enough here: too low an end is possible (see
    `eunoe.streams.plain_consumer.end_offsets`), too high a one is not.
    """

    def __init__(self, kafka: KafkaSettings, names: TopicNames) -> None:
        self._kafka = kafka
        self._names = names
        self._consumer: Any = None
        self._open = AsyncExitStack()

    async def ends(self, partitions: Iterable[LogicalPartition]) -> dict[LogicalPartition, int]:
        """The offset after the last record of each partition; raises `Unavailable` when no broker answers."""
        wanted = {
            TopicPartition(self._names.name(Topic(topic)), number): (topic, number) for topic, number in partitions
        }
        if not wanted:
            return {}
        try:
            with broker_faults(self._kafka):
                async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                    if self._consumer is None:
                        self._consumer = await self._open.enter_async_context(open_consumer(self._kafka))
                    ends = await self._consumer.end_offsets(list(wanted))
        except BaseException:
            await self.close()
            raise
        return {logical: ends[partition] for partition, logical in wanted.items()}

    async def close(self) -> None:
        """Disconnect."""
        self._consumer = None
        await self._open.aclose()
