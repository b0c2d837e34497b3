"""In-memory implementation of the log, for tests and for evaluations in one process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, takewhile

from eunoe.schemas.errors import EunoeError
from eunoe.streams.group.handlers import BatchHandler, Handler
from eunoe.streams.publisher import check_message
from eunoe.streams.record import Message, Record, RecordPlace
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import TOPICS, Topic

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def yield_only(seconds: float) -> Awaitable[None]:
    """Let other tasks run, for no time."""
    del seconds
    return asyncio.sleep(0)


class Deadlock(EunoeError):
    """A handler waits for something that no stage of the consumer will produce."""


class MemoryLog:
    """Topics in memory; a `eunoe.streams.record.Publisher`.

    ``clock`` gives the append time of each record. A message without key and partition goes to partition 0.
    """

    def __init__(self, partitions: int = 4, clock: Clock = _utc_now) -> None:
        self.partitions = partitions
        self._clock = clock
        self._logs: dict[Topic, list[list[Record]]] = {topic: [[] for _ in range(partitions)] for topic in TOPICS}
        self._starts: dict[Topic, list[int]] = {topic: [0] * partitions for topic in TOPICS}
        """The offset of the first record that each partition has."""
        self._count = 0

    def __len__(self) -> int:
        """All records of all topics that were ever appended."""
        return self._count

    async def publish(self, messages: Sequence[Message]) -> list[RecordPlace]:
        """Append all messages, in their order; returns their places.

        Raises `MessageTooLarge` before anything is appended, ``ValueError`` for an unknown topic or partition.
        """
        for message in messages:
            check_message(message)
        records = [self.append(message) for message in messages]
        return [record.place for record in records]

    def append(self, message: Message) -> Record:
        """Append one message and return its record."""
        topic, partition = Topic(message.topic), self._partition(message)
        log = self._logs[topic][partition]
        record = Record(
            topic=topic,
            partition=partition,
            offset=self._starts[topic][partition] + len(log),
            key=message.key,
            value=message.value,
            timestamp_ms=round(self._clock().timestamp() * 1000),
            headers=dict(message.headers),
        )
        log.append(record)
        self._count += 1
        return record

    def records(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition, each in the order of its offsets."""
        return [record for log in self._logs[Topic(topic)] for record in log]

    def after(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at ``offset``, or the first one behind it; `None` where the partition ends before it."""
        log = self._logs[Topic(topic)][partition]
        place = max(0, offset - self._starts[Topic(topic)][partition])
        return log[place] if place < len(log) else None

    def run_of(self, first: Record) -> list[Record]:
        """A record and those of its key directly behind it in its partition, as far as there are any now."""
        topic = Topic(first.topic)
        log, place = self._logs[topic][first.partition], first.offset - self._starts[topic][first.partition]
        return list(takewhile(lambda record: record.key == first.key, islice(log, place, None)))

    def drain(self) -> list[Record]:
        """Take all records out, topic by topic and partition by partition; the offsets of later ones go on.

        Call it where every stage has handled all.
        """
        taken = []
        for topic, logs in self._logs.items():
            for partition, log in enumerate(logs):
                taken += log
                self._starts[topic][partition] += len(log)
                log.clear()
        return taken

    def _partition(self, message: Message) -> int:
        if message.partition is None:
            return 0 if message.key is None else partition_of(message.key, self.partitions)
        if not 0 <= message.partition < self.partitions:
            raise ValueError(f"{message.topic} has no partition {message.partition}, only {self.partitions}")
        return message.partition


@dataclass(slots=True)
class _Subscription:
    """A consumer group of one member."""

    stage: str
    topics: tuple[Topic, ...]
    handle: Handler
    handle_batch: BatchHandler | None = None
    offsets: dict[tuple[Topic, int], int] = field(default_factory=dict)
    busy: bool = False


class MemoryConsumer:
    """Passes the records of a `MemoryLog` to handlers, one at a time and in a deterministic order.

    The stage that was subscribed last goes first. With stages subscribed in the order of the pipeline, all effects of
    an event are handled before the next event, as in a service that keeps up.

    While a handler pauses, the other stages go on; only when all are idle is ``sleep`` awaited. After an exception of
    a handler, the next call begins with the same record.
    """

    def __init__(self, log: MemoryLog, sleep: Sleep = yield_only, max_pauses: int = 10_000) -> None:
        self._log = log
        self._sleep = sleep
        self._max_pauses = max_pauses
        self._subscriptions: list[_Subscription] = []
        self._handled = 0

    def subscribe(
        self, stage: str, topics: Sequence[str], handle: Handler, handle_batch: BatchHandler | None = None
    ) -> None:
        """Pass all records of ``topics`` to ``handle``, from the beginning.

        With ``handle_batch`` those of one key that wait one behind the other are passed together.
        """
        self._subscriptions.append(_Subscription(stage, tuple(map(Topic, topics)), handle, handle_batch))

    async def run_until_idle(self) -> int:
        """Handle all records and those that they produce, until none is left; returns the number handled.

        Raises the exceptions of handlers, and `Deadlock` when a handler goes on pausing while all others are idle.
        """
        before = self._handled
        while await self.step():
            pass
        return self._handled - before

    async def step(self) -> bool:
        """Handle the next record of the last stage that has one; returns False when all stages are idle or pausing."""
        for subscription in reversed(self._subscriptions):
            if not subscription.busy and (record := self._next(subscription)) is not None:
                await self._handle(subscription, record)
                return True
        return False

    async def wait(self, stage: str, fruitless: int, seconds: float) -> bool:
        """Let another stage work while a handler of ``stage`` pauses, or sleep; returns whether one did."""
        if await self.step():
            return True
        if fruitless >= self._max_pauses:
            raise Deadlock(f"{stage} paused {fruitless} times while all other stages were idle")
        await self._sleep(seconds)
        return False

    def _next(self, subscription: _Subscription) -> Record | None:
        for topic in subscription.topics:
            for partition in range(self._log.partitions):
                record = self._log.after(topic, partition, subscription.offsets.get((topic, partition), 0))
                if record is not None:
                    return record
        return None

    async def _handle(self, subscription: _Subscription, record: Record) -> None:
        subscription.busy = True
        batch = [record] if subscription.handle_batch is None else self._log.run_of(record)
        lease = _MemoryLease(self, subscription.stage)
        try:
            if subscription.handle_batch is not None and len(batch) > 1:
                await subscription.handle_batch(batch, lease)
            else:
                await subscription.handle(record, lease)
        finally:
            subscription.busy = False
        subscription.offsets[Topic(record.topic), record.partition] = record.offset + len(batch)
        self._handled += len(batch)


class _MemoryLease:
    """The lease of one record; it is never revoked."""

    def __init__(self, consumer: MemoryConsumer, stage: str) -> None:
        self._consumer = consumer
        self._stage = stage
        self._fruitless = 0

    @property
    def revoked(self) -> bool:
        """Always False."""
        return False

    async def pause(self, seconds: float) -> None:
        """Let other stages work; never raises `eunoe.streams.record.Revoked`."""
        self._fruitless = 0 if await self._consumer.wait(self._stage, self._fruitless, seconds) else self._fruitless + 1
