"""Where partitions end, asked on a connection of its own: a consumer that stalls believes that it is at the end."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import TopicPartition

from eunoe.streams.group.partition import Place
from eunoe.streams.plain_consumer import broker_faults, open_consumer
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames


class EndWatch:
    """Asks the brokers for the ends of partitions; connects when it is first asked, and anew after a fault.

    A broker may tell less than there is (see `eunoe.streams.plain_consumer.end_offsets`), never more.
    """

    def __init__(self, kafka: KafkaSettings, names: TopicNames) -> None:
        self._kafka = kafka
        self._names = names
        self._consumer: Any = None
        self._open = AsyncExitStack()

    async def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """The offset after the last record of each partition. Raises `Unavailable` when no broker answers."""
        wanted = {
            TopicPartition(self._names.name(Topic(topic)), partition): (topic, partition) for topic, partition in places
        }
        if not wanted:
            return {}
        try:
            with broker_faults(self._kafka):
                async with asyncio.timeout(self._kafka.request_timeout_ms / 1000):
                    if self._consumer is None:
                        self._consumer = await self._open.enter_async_context(open_consumer(self._kafka))
                    told = await self._consumer.end_offsets(list(wanted))
        except BaseException:
            await self.close()
            raise
        return {place: told[partition] for partition, place in wanted.items()}

    async def close(self) -> None:
        """Disconnect."""
        self._consumer = None
        await self._open.aclose()
