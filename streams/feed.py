"""Feeds: many readers of a topic in one process share one consumer, each from a place of its own."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition

from eunoe.schemas.errors import Unavailable
from eunoe.streams.follower import Follower
from eunoe.streams.plain_consumer import as_record, end_offsets, open_consumer
from eunoe.streams.reader import read_range
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames

MAX_WAITING: Final = 1_000
"""Records that wait for a reader; one that lags behind further loses its feed."""
MAX_WAITING_BYTES: Final = 4_000_000
PAGE_S: Final = 1.0
"""Seconds after which a page of a backlog ends, so that other readers have their turn."""

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
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Entered while a page of the backlog is read, for which it takes a consumer."""
    lost_place: bool = False
    """Whether it was to begin behind the end of a partition, as one that lost records has: it begins now instead."""
    _waiting: deque[Record] = field(default_factory=deque)
    _size: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lost: str | None = None

    async def next(self) -> Record:
        """The next record; raises `FeedLost`, and `Unavailable` where the backlog cannot be read."""
        if self.backlog is not None:
            record = await anext(self.backlog, None)
            if record is not None:
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
        if self._lost is not None or not self.wants(record):
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

    def wants(self, record: Record) -> bool:
        """Whether the record is one that it reads."""
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
        self._looking = asyncio.Lock()
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

        What is sent after the block is entered is not missed. Where a place lies behind the end of its partition, all
        begin now (``lost_place``). Raises `Unavailable` when no broker answers.
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
        lost_place = await self._is_behind_an_end(begin)
        now = {partition: self._follower.next[self._place(partition)] for partition in begin}
        places = {partition: None if lost_place else offset for partition, offset in begin.items()}
        wanted = {partition: now[partition] if offset is None else offset for partition, offset in places.items()}
        missed = {partition: (wanted[partition], now[partition]) for partition in begin}
        subscription = Subscription(takes, wanted, lost_place=lost_place)
        if any(first < end for first, end in missed.values()):
            subscription.backlog = self._backlog(subscription, missed)
        for partition in begin:
            self._subscriptions.setdefault(partition, []).append(subscription)
        try:
            yield subscription
        finally:
            for partition in begin:
                self._subscriptions[partition].remove(subscription)

    async def _is_behind_an_end(self, begin: Mapping[int, int | None]) -> bool:
        """Whether a place lies behind the end of its partition: the records up to there would never be told.

        A place that another process gave out may be ahead of what this one has read, so the broker is asked. Raises
        `Unavailable`.
        """
        places = {self._place(partition): offset for partition, offset in begin.items() if offset is not None}
        ahead = {place: offset for place, offset in places.items() if offset > self._follower.next[place]}
        if not ahead:
            return False
        async with self._looking, open_consumer(self._kafka, brief=True) as scout:  # one at once, whatever is given
            ends = await end_offsets(self._kafka, scout, list(ahead))
        return any(offset > ends[place] for place, offset in ahead.items())

    def _is_awaited(self) -> bool:
        return self._interactive and any(self._subscriptions.values())

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._names.name(self._topic), partition)

    async def _backlog(
        self, subscription: Subscription, missed: Mapping[int, tuple[int, int]]
    ) -> AsyncGenerator[Record]:
        """Read page by page, so that a reader who takes its time keeps no consumer."""
        for partition, (first, end) in sorted(missed.items()):
            place = first
            while place < end:
                async with subscription.turn():
                    page, place = await self._page(subscription, partition, (place, end))
                for record in page:
                    yield record

    async def _page(
        self, subscription: Subscription, partition: int, offsets: tuple[int, int]
    ) -> tuple[list[Record], int]:
        """The first records that a reader wants among these offsets, and the offset behind what was looked at."""
        page: list[Record] = []
        size, begun = 0, monotonic()
        async with aclosing(read_range(self._kafka, self._names, self._topic, partition, offsets)) as records:
            async for record in records:
                if subscription.wants(record):
                    page.append(record)
                    size += len(record.value)
                full = len(page) >= MAX_WAITING or size >= MAX_WAITING_BYTES
                if full or monotonic() - begun >= PAGE_S:
                    return page, record.offset + 1
        return page, offsets[1]

    def _take(self, found: ConsumerRecord) -> None:
        record = as_record(self._topic, found)
        for subscription in self._subscriptions.get(record.partition, ()):
            subscription.offer(record)

    def _lose(self, why: str) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.lose(f"{self._kafka.server}: {why}")
