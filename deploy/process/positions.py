"""Handled positions of a stage's partitions: written before each ack, compared before a partition is read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from eunoe.schemas.errors import Refused
from eunoe.schemas.position_ports import Positions
from eunoe.streams.group.end_watch import EndWatch
from eunoe.streams.group.partition import BeforeAck, LogicalPartition
from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.plain_consumer import broker_faults, end_offsets, open_consumer
from eunoe.streams.position import position, split_position
from eunoe.streams.record import Lease
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.runner.backoff import Backoff, Outages, UnboundedLease
from eunoe.workers.runner.loss_detector import LossDetector
from eunoe.workers.stage import PeriodicTask

log = logging.getLogger(__name__)

START_RETRY_S = 30.0
"""Seconds that the start of a partition waits for the store: no lease reports a rebalance there."""
WATCH_S = 5.0
"""Seconds between two looks at the positions of partitions, also of those without records."""
SETTLE_S = (1.0, 3.0)
"""Seconds until an end that is too low is read again: a broker that has just become leader may not know it all yet."""

EndAtLeast = Callable[[str, int, int], Awaitable[int]]
"""Takes topic, partition and an offset; returns an end of the partition that is the true one where it is below that."""

BeginOf = Callable[[str, int], Awaitable[int]]
"""Takes topic and partition; returns the first offset that the partition still has."""


class LogEnds:
    """Ends of partitions, on one connection; an end that looks too low is read again on a fresh one."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames) -> None:
        self._kafka = kafka
        self._names = names
        self._watch = EndWatch(kafka, names)
        self._looking = asyncio.Lock()

    async def end_at_least(self, topic: str, partition: int, least: int) -> int:
        """The offset after the last record, exact where it is below ``least``; raises `Unavailable`.

        The embedded broker shows latest offsets that are too low for a while.
        """
        async with self._looking:
            end = (await self._watch.ends([(topic, partition)]))[topic, partition]
        if end >= least:
            return end
        at = TopicPartition(self._names.name(Topic(topic)), partition)
        end = max(end, await self.exact_end(at))
        for pause_s in SETTLE_S:
            if end < least:
                await asyncio.sleep(pause_s)
                end = await self.exact_end(at)
        return end

    async def exact_end(self, at: TopicPartition) -> int:
        """The offset after the last record, as its leader knows it; raises `Unavailable`."""
        async with open_consumer(self._kafka, brief=True) as consumer:
            return (await end_offsets(self._kafka, consumer, [at]))[at]

    async def shorter(self, least: Mapping[LogicalPartition, int]) -> dict[LogicalPartition, int]:
        """The partitions that end before these offsets, with their exact ends; raises `Unavailable`."""
        async with self._looking:
            ends = await self._watch.ends(least)
        exact = {at: await self.end_at_least(*at, end) for at, end in least.items() if ends[at] < end}
        return {at: end for at, end in exact.items() if end < least[at]}

    async def begin_of(self, topic: str, partition: int) -> int:
        """The first offset that a partition still has; raises `Unavailable`."""
        at = TopicPartition(self._names.name(Topic(topic)), partition)
        async with open_consumer(self._kafka, brief=True) as consumer:
            with broker_faults(self._kafka):
                return int((await consumer.beginning_offsets([at]))[at])

    async def close(self) -> None:
        """Disconnect."""
        await self._watch.close()


def remember_position(loss_detector: LossDetector, epoch: int, outages: Outages, retry_limit_s: float) -> BeforeAck:
    """A hook that stores the handled position of a partition before each ack; without the store nothing is acked.

    It raises `Unavailable` after ``retry_limit_s`` seconds, `Revoked` when a rebalance comes first or the store went
    back.
    """

    async def before_ack(topic: str, partition: int, offset: int, lease: Lease) -> None:
        handled = position(epoch, offset)
        await outages.retry(lambda: loss_detector.advance(topic, partition, handled), lease, Backoff(), retry_limit_s)

    return before_ack


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Finds where a stage starts to read a partition."""

    loss_detector: LossDetector
    epoch: int
    end_at_least: EndAtLeast | None = None
    """Compares handled positions with the end of the log; `None` where they do not decide what is new."""
    begin_of: BeginOf | None = None
    """Set where a partition loses records with time, which only a rebuild reads then."""
    outages: Outages = field(default_factory=Outages)

    async def start(self, topic: str, partition: int, offset: int) -> int | None:
        """The offset to start from: where the commit is ahead of a server of the store, the store lost writes.

        Raises `Refused` where the log ends before what was handled, or has lost what was not, `Unavailable` where the
        store or the brokers stay away for `START_RETRY_S`.
        """
        return await self.outages.retry(
            lambda: self._start(topic, partition, offset), UnboundedLease(), Backoff(), START_RETRY_S
        )

    async def _start(self, topic: str, partition: int, offset: int) -> int | None:
        stored = await self.loss_detector.stored(topic, partition)
        await self._refuse_short_log(topic, partition, stored)
        next_offset = min(self._next_offset(at.position) for at in stored.values())
        first = min(next_offset, offset)
        await self._refuse_gap(topic, partition, first, stored)
        handled = position(self.epoch, first - 1) if first else 0
        await self.loss_detector.begin(topic, partition, stored, handled)
        if next_offset >= offset:
            return None
        log.warning(
            "%s/%d: committed up to %d, but the state store shows it handled up to %d only: reading again from there",
            topic,
            partition,
            offset,
            next_offset,
        )
        return next_offset

    def _next_offset(self, handled: int) -> int:
        """The offset after the last one handled in this epoch."""
        if not handled:
            return 0
        epoch, offset = split_position(handled)
        return offset + 1 if epoch == self.epoch else 0

    async def _refuse_gap(self, topic: str, partition: int, first: int, stored: Positions) -> None:
        """Without the records between them, the memory of conversations would go on with a hole in it."""
        of_other_epoch = any(at.position and split_position(at.position)[0] != self.epoch for at in stored.values())
        if self.begin_of is None or of_other_epoch:
            return
        begin = await self.begin_of(topic, partition)
        if first < begin:
            raise Refused(
                f"{topic}/{partition} begins at offset {begin}, but the state store shows it handled up to {first}"
                " only: what lies between is past the topic's retention, and stands in the sealed log. Run"
                " `eunoe rebuild --into NAME`, then `eunoe promote NAME` (deploy/docs/rebuild.md, The sealed log)"
            )

    async def _refuse_short_log(self, topic: str, partition: int, stored: Positions) -> None:
        handled = max(self._next_offset(at.position) for at in stored.values())
        if self.end_at_least is None or not handled:
            return
        end = await self.end_at_least(topic, partition, handled)
        if end < handled:
            raise short_log((topic, partition), end, handled, self.epoch)


def short_log(at: LogicalPartition, end: int, handled: int, epoch: int) -> Refused:
    """The error of a partition that ends before what was handled of it."""
    return Refused(
        f"{at[0]}/{at[1]} ends at offset {end}, but was handled up to {handled} in epoch {epoch}:"
        " the topic was made anew, or the log lost its end. New records would pass for handled ones."
        f" Restore the log, or set EUNOE_EPOCH={epoch + 1} for all workers to take what is in it as new"
        " (deploy/docs/operations.md, A log that is shorter than before)"
    )


def log_watch(
    shorter: Callable[[Mapping[LogicalPartition, int]], Awaitable[dict[LogicalPartition, int]]],
    handled: Callable[[], Mapping[LogicalPartition, int]],
    epoch: int,
) -> PeriodicTask:
    """The task that ends the process where the log lost its end under it: no rebalance tells of that.

    ``shorter`` and ``handled``: `LogEnds.shorter`, and the offset after the last handled record of each partition. A
    round raises `Refused`, or `Unavailable`.
    """

    async def look() -> None:
        least = handled()
        for at, end in (await shorter(least)).items():
            raise short_log(at, end, least[at], epoch)

    return PeriodicTask(look, WATCH_S)


def position_watch(loss_detector: LossDetector, consumer: StageConsumer) -> PeriodicTask:
    """The task that has a stage read again where the store went back; it notices also where no records come."""

    async def look() -> None:
        if not await loss_detector.is_intact(consumer.assigned()):
            await consumer.read_again()

    return PeriodicTask(look, WATCH_S)
