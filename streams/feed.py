"""Feeds: many readers of a topic in one process share one consumer, each from a place of its own."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Unavailable
from eunoe.streams.follower import Follower
from eunoe.streams.plain_consumer import as_record
from eunoe.streams.reader import read_range
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

MAX_WAITING: Final = 1_000
"""Records that wait for a reader; one that lags behind further loses its feed."""
MAX_WAITING_BYTES: Final = 4_000_000

Takes = Callable[[bytes | None], bool]
"""Whether a reader wants the records of a key."""


class FeedLost(Unavailable):
    """The feed of a reader ended: it lagged too far behind, or the broker is away. Read on from the last place."""


@dataclass(slots=True)
class Subscription:
    """One reader's part of a feed."""

    takes: Takes
    begin: dict[int, int] = field(default_factory=dict)
    """Partition → the first offset that it reads."""
    backlog: AsyncGenerator[Record] | None = None
    """The records before those that came since the subscription began."""
    _waiting: deque[Record] = field(default_factory=deque)
    _size: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lost: str | None = None

    async def next(self) -> Record:
        """The next record; raises `FeedLost`, and `Unavailable` where the backlog cannot be read."""
        if self.backlog is not None:
            async for record in self.backlog:
                if self._wants(record):
                    return record
            self.backlog = None
        while not self._waiting:
            if self._lost is not None:
                raise FeedLost(self._lost)
            self._news.clear()
            await self._news.wait()
        record = self._waiting.popleft()
        self._size -= len(record.value)
        return record

    def offer(self, record: Record) -> None:
        """Hand over a record that has just come."""
        if self._lost is not None or not self._wants(record):
            return
        self._waiting.append(record)
        self._size += len(record.value)
        if len(self._waiting) > MAX_WAITING or self._size > MAX_WAITING_BYTES:
            self._waiting.clear()
            self.lose("the reader lags too far behind")
        self._news.set()

    def lose(self, why: str) -> None:
        """End the feed after the records that wait."""
        self._lost = why
        self._news.set()

    def _wants(self, record: Record) -> bool:
        return record.offset >= self.begin.get(record.partition, 0) and self.takes(record.key)


class Feed:
    """Follows those partitions of a topic that somebody reads, each from its end at the first subscription."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, topic: str, *, interactive: bool = True) -> None:
        """Unless ``interactive``, readers do not mind a tenth of a second. After a silence `notify` is needed."""
        self._kafka = kafka
        self._names = names
        self._topic = topic
        self._subscriptions: dict[int, list[Subscription]] = {}
        self._follower = Follower(kafka, self._take, self._lose, self._is_awaited, rests_awaited=True)
        self._interactive = interactive
        self._users = 0
        """Subscriptions, also those that are being made."""
        self._freed = asyncio.Event()
        """Set when the last of them has ended."""

    def notify(self) -> None:
        """Report that there may be new records."""
        self._follower.notify()

    async def stop(self) -> None:
        """Disconnect; all feeds are lost."""
        self._lose("the connection was closed")
        await self._follower.stop()

    async def unused(self) -> None:
        """Wait until nobody subscribes."""
        while self._users:
            self._freed.clear()
            await self._freed.wait()

    @asynccontextmanager
    async def subscribe(self, begin: Mapping[int, int | None], takes: Takes) -> AsyncIterator[Subscription]:
        """The records of some partitions, each from an offset on; `None` means from now on.

        What is sent after the block is entered is not missed. Raises `Unavailable` when no broker answers.
        """
        self._users += 1
        try:
            async with self._subscribed(begin, takes) as subscription:
                yield subscription
        finally:
            self._users -= 1
            if not self._users:
                self._freed.set()

    @asynccontextmanager
    async def _subscribed(self, begin: Mapping[int, int | None], takes: Takes) -> AsyncIterator[Subscription]:
        await self._follower.follow(self._place(partition) for partition in begin)
        now = {partition: self._follower.next[self._place(partition)] for partition in begin}
        wanted = {partition: now[partition] if offset is None else offset for partition, offset in begin.items()}
        missed = {partition: (wanted[partition], now[partition]) for partition in begin}
        subscription = Subscription(takes, wanted)
        if any(first < end for first, end in missed.values()):
            subscription.backlog = self._backlog(missed)
        for partition in begin:
            self._subscriptions.setdefault(partition, []).append(subscription)
        try:
            yield subscription
        finally:
            for partition in begin:
                self._subscriptions[partition].remove(subscription)
            if subscription.backlog is not None:  # its consumer is closed now, not when the collector finds it
                await subscription.backlog.aclose()

    def _is_awaited(self) -> bool:
        return self._interactive and any(self._subscriptions.values())

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._names.name(self._topic), partition)

    async def _backlog(self, missed: Mapping[int, tuple[int, int]]) -> AsyncGenerator[Record]:
        for partition, (first, end) in sorted(missed.items()):
            if first < end:
                records = read_range(self._kafka, self._names, self._topic, partition, (first, end))
                async with aclosing(records):
                    async for record in records:
                        yield record

    def _take(self, found: ConsumerRecord) -> None:
        record = as_record(self._topic, found)
        for subscription in self._subscriptions.get(record.partition, ()):
            subscription.offer(record)

    def _lose(self, why: str) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.lose(f"{self._kafka.server}: {why}")
