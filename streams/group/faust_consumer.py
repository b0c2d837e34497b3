"""The consumer of a group, on Faust: fetched records go straight to its owner, who alone decides what is committed.

No record waits in Faust's queues when its partition is lost, and none costs the two tasks that Faust makes for each.
Faust acks nothing: its own bookkeeping can commit past unfinished work, and at the begin of a rebalance it forgets the
acks since the last commit.
"""

import asyncio
import logging
import warnings
from time import perf_counter
from typing import Any, Protocol, cast

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from aiokafka import ConsumerRecord
    from aiokafka.errors import ConsumerStoppedError, IllegalStateError
    from faust.transport.consumer import RecordMap, ensure_TP
    from faust.transport.drivers import aiokafka as driver
    from faust.types import TP
    from mode import Service, ServiceT

from eunoe.streams.broker_adapter import ConsumerLoad
from eunoe.streams.group.dispatcher import Dispatcher
from eunoe.streams.group.faust_thread import ConsumerThread
from eunoe.streams.settings import KafkaSettings

__all__ = ["TP", "GroupConsumer", "Owner"]

log = logging.getLogger(__name__)

_POLL_S = 2.0
_SLICE_S = 0.005
"""Seconds for which records are handed on before the handlers get a turn."""


class Owner(Protocol):
    """The owner of a group consumer: takes fetched records and decides what is committed."""

    kafka: KafkaSettings
    load: ConsumerLoad
    dispatcher: Dispatcher

    async def take(self, found: ConsumerRecord) -> None:
        """Take one record; returns when there is room for the next."""
        ...

    async def drain(self, grace_s: float | None = None) -> None:
        """Finish the records in work and commit them: partitions are about to be lost."""
        ...

    def acked(self) -> dict[TP, int]:
        """Newest offset that may be committed, by partition."""
        ...

    def read_to(self, tp: TP, offset: int) -> None:
        """Note that all records of a partition before ``offset`` were taken; there may be none just before it."""
        ...

    async def start_of(self, tp: TP, offset: int) -> int:
        """The offset from which to read a partition whose next offset is ``offset``."""
        ...

    def crashed(self, reason: BaseException) -> None:
        """Note why the consumer cannot go on. May be called from any thread."""
        ...


class GroupConsumer(driver.Consumer):
    """Faust's consumer, with the dispatcher in place of its bookkeeping of acks."""

    logger = logging.getLogger("faust.consumer")

    def __post_init__(self) -> None:
        self._committing = asyncio.Lock()
        self._seeking = asyncio.Lock()
        self._committed: dict[TP, int] = {}
        self._fetched: dict[TP, int] = {}
        self._progress: dict[TP, tuple[int | None, int | None]] = {}
        self._starts: dict[TP, int] = {}
        self._needs_seek = False
        self._polled: RecordMap = {}

    @property
    def _owner(self) -> Owner:
        owner: Owner = cast("Any", self.app).owner  # it is a `GroupApp`, which is built on this class
        return owner

    @property
    def _worker(self) -> ConsumerThread:
        return cast("ConsumerThread", self._thread)

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        owner = self._owner
        return ConsumerThread(self, owner.kafka, owner.load, owner.crashed, loop=self.loop, beacon=self.beacon)

    def notify(self) -> None:
        """Report new records of the topics. May be called from any thread."""
        self._worker.notify()

    @property
    def reaches_group(self) -> bool:
        """Whether acknowledgements can be sent now."""
        return self._worker.reaches_group

    def fetched_bytes(self) -> tuple[int, int]:
        """The bytes that were fetched and not handed on yet, and the most that they may be, unless they are compressed.

        What is handed on counts until all that came with it is.
        """
        polled = sum(len(record.value or b"") for records in self._polled.values() for record in records)
        # while some are handed on, as many may be fetched
        return polled + self._worker.fetched_bytes(), 2 * self._worker.max_fetched_bytes()

    # ---- rebalance

    def hold(self) -> None:
        """Hand on no more records."""
        self.stop_flow()

    def give_up_commits(self) -> None:
        """Wait for no commit any more that cannot be sent."""
        self._worker.is_stopping = True

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish the records in work and commit them while the partitions are still ours.

        A consumer without partitions may get some: no record is handed on before the seek after the assignment.
        """
        self.hold()
        if revoked:
            await self._owner.drain()
        self._fetched.clear()
        self._progress.clear()
        self._committed.clear()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Let the dispatcher take records again."""
        self._owner.dispatcher.resume()
        await super().on_partitions_assigned(assigned, generation_id)

    # ---- commits

    async def force_commit(self, topics: object = None, start_new_transaction: bool = True) -> bool:
        """Commit what was acked since the last commit."""
        async with self._committing:
            offsets = {tp: offset + 1 for tp, offset in self._owner.acked().items()}
            news = {tp: offset for tp, offset in offsets.items() if self._committed.get(tp) != offset}
            if not news or not await self._commit(news):
                return not news
            self._committed.update(news)
            return True

    @Service.task
    async def _commit_handler(self) -> None:
        """Commit at intervals; Faust's timer costs ten times as much processor time where there is nothing to do."""
        while not self.should_stop:
            await asyncio.sleep(self.commit_interval)
            await self.commit()

    @Service.task
    async def _commit_livelock_detector(self) -> None:
        """Do nothing: Faust looks here for partitions without acks, and it sees none of ours."""

    # ---- where to read

    async def perform_seek(self) -> None:
        """Seek to the committed offsets, or to where the owner wants to start.

        Faust's own seek does not move a partition without a commit, or with one at 0. Records fetched while the flow
        was stopped would be lost.
        """
        async with self._seeking:
            committed = {ensure_TP(tp): offset for tp, offset in (await self.seek_to_committed()).items()}
            earliest = {ensure_TP(tp): at for tp, at in (await self.earliest_offsets(*committed)).items()}
            starts = {tp: await self._owner.start_of(tp, max(at or 0, earliest[tp])) for tp, at in committed.items()}
            self._needs_seek = False  # before the seek: what comes after it while the flow is stopped needs another one
            await self.seek_wait(starts)
            self._starts = starts
            self._committed = {tp: at for tp, at in committed.items() if at is not None}
            self._fetched.clear()
            self._progress.clear()

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        """Hand fetched records straight to the owner, for as long as the fetcher lives."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                if self._needs_seek:
                    await self._seek_again()
                fetched, active = await self._wait_next_records(_POLL_S)
                self._polled = fetched or {}
                if await self._hand_on(self._polled, active):
                    self._note_read()
                self._polled = {}
        except (ConsumerStoppedError, asyncio.CancelledError):
            if not self.app.should_stop:
                raise

    async def _hand_on(self, fetched: RecordMap, active: set[TP] | None) -> bool:
        """Hand on the records of one poll; after a rebalance they are dropped, and read again after its seek.

        Returns whether all are handed on, and nothing was sought meanwhile.
        """
        if self.should_stop:
            return False
        if self._needs_seek or not self.flow_active:
            self._needs_seek = True
            return False
        generation, since = self.app.consumer_generation_id, perf_counter()
        for tp, found in self.scheduler.iterate(fetched):
            if not self.flow_active or self.app.consumer_generation_id != generation:
                return False
            if active is None or tp in active:
                await self._owner.take(found)
            if perf_counter() - since > _SLICE_S:
                await asyncio.sleep(0)
                since = perf_counter()
        return self.flow_active and self.app.consumer_generation_id == generation

    def _note_read(self) -> None:
        """Tell the owner how far each partition was read: the end of a transaction has an offset and no record."""
        for tp, (position, _end) in self._progress.items():
            begin = self._starts.get(tp)
            if position is not None and begin is not None and position > begin:
                self._owner.read_to(tp, position)

    async def _seek_again(self) -> None:
        """Have the records fetched while the flow was stopped again: they may have come after the rebalance's seek.

        Not before the flow goes on: until then commits of what is in work are on their way, and with the older offsets
        the owner would take the partitions, which another member may have by then.
        """
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        self._needs_seek = self._needs_seek and bool(self.assignment())  # without partitions the next ones are sought
        if self.should_stop or not self._needs_seek:
            return
        try:
            await self.perform_seek()
        except Exception as error:
            # aiokafka raises AssertionError when no partition is assigned any more
            if not (self.app.rebalancing or isinstance(error, IllegalStateError | AssertionError)):
                raise
            # the seek of the rebalance may have come before these records
            self._needs_seek = True
            log.info("seek failed during a rebalance, will be tried again: %r", error)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> RecordMap:
        records = await super()._getmany(active_partitions, timeout)
        self._fetched.update({ensure_TP(tp): batch[-1].offset for tp, batch in records.items() if batch})
        self._progress = {tp: self._worker.progress(tp) for tp in self.assignment()}
        places = self._progress.values()
        self._owner.dispatcher.note_behind(any(at is not None and end is not None and at < end for at, end in places))
        return records

    def begun_at(self, tp: TP) -> int | None:
        """The first offset read since the last rebalance; `None` before the seek."""
        return self._starts.get(tp)

    def caught_up(self, tp: TP, last_taken: int | None) -> bool:
        """Whether the partition was read to its end, and all its records were taken."""
        position, end = self._progress.get(tp, (None, None))
        if position is None or end is None or position < end:
            return False
        fetched = self._fetched.get(tp)
        return fetched is None or (last_taken is not None and last_taken >= fetched)
