"""Keyed dispatch: records of one key run one after another, keys run concurrently, acks leave in log order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from eunoe.schemas.errors import EunoeError
from eunoe.streams.group.ack_rounds import AckRounds
from eunoe.streams.group.fair_queues import FairQueues
from eunoe.streams.group.handlers import Backpressure, BatchHandler, OnRevoked, Urgent
from eunoe.streams.group.in_work import Batch, InWork, Job, ordering_key_of, place_of
from eunoe.streams.group.key_starts import KeyStarts
from eunoe.streams.group.limits import TRACKED_BYTES, DispatchLimits
from eunoe.streams.group.partition import AckCallbacks, Assignment, BeforeAck, LogicalPartition, PartitionState
from eunoe.streams.record import Record, Revoked

log = logging.getLogger(__name__)

_CANCEL_S = 1.0


class Dispatcher:
    """Takes records in log order and runs a handler on them, on batches of one key.

    A handler that raises `Revoked` leaves its records un-acked, and all later ones of their key and partition. Any
    other exception ends the dispatcher: it takes no more records, and `failed` returns.
    """

    def __init__(
        self,
        handle: BatchHandler,
        *,
        before_ack: BeforeAck | None = None,
        on_revoked: OnRevoked | None = None,
        backpressure: Backpressure = lambda: None,
        urgent: Urgent = lambda _record: False,
        limits: DispatchLimits | None = None,
    ) -> None:
        self._handle = handle
        self._callbacks = AckCallbacks(before_ack, self._acks_returned, self._acks_flushed)
        self._on_revoked = on_revoked
        self._backpressure = backpressure
        self._urgent = urgent
        self._limits = limits or DispatchLimits()
        self._assignment = Assignment()
        self._rounds = AckRounds(self._limits.ack_interval_s)
        self._partitions: dict[LogicalPartition, PartitionState] = {}
        self._queues = FairQueues[Job]()
        self._work = InWork()
        self._starts = KeyStarts(self._pump)
        self._is_behind = False
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    # ---- state

    @property
    def in_work(self) -> int:
        """Number of records whose handler runs."""
        return self._work.records

    @property
    def queued(self) -> int:
        """Number of records that wait for their key, or for a key in work to finish."""
        return self._queues.waiting

    @property
    def any_urgent(self) -> bool:
        """Whether an urgent record waits or is in work."""
        return self._work.urgent > 0 or self._queues.holds_urgent

    @property
    def held_bytes(self) -> int:
        """The bytes of all records taken, and of the bookkeeping for finished ones behind an unfinished one."""
        tracked = sum(state.offsets.outstanding for state in self._partitions.values())
        return self._taken_bytes + TRACKED_BYTES * tracked

    @property
    def _taken_bytes(self) -> int:
        return self._queues.waiting_bytes + self._work.bytes

    @property
    def max_held_bytes(self) -> int:
        """The bytes up to which records are taken; the last one may exceed them."""
        return max(self._limits.queued_bytes, self._limits.ahead_bytes)

    @property
    def waited_s(self) -> float:
        """Seconds that all records together have waited."""
        return self._work.waited_s

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended the dispatcher."""
        return self._failure

    @property
    def taking(self) -> bool:
        """Whether records are taken; after a revocation or a failure they are dropped."""
        return not self._assignment.revoked and self._failure is None

    async def failed(self) -> BaseException:
        """Wait until the dispatcher has failed; returns the exception."""
        await self._until(lambda: self._failure is not None)
        assert self._failure is not None
        return self._failure

    def outstanding(self, topic: str, partition: int) -> int:
        """Number of records of a partition that are unfinished, or done behind an unfinished one."""
        state = self._partitions.get((topic, partition))
        return state.offsets.outstanding if state else 0

    def last_taken(self, topic: str, partition: int) -> int | None:
        """Newest offset of a partition taken in this assignment."""
        state = self._partitions.get((topic, partition))
        return state.offsets.last if state else None

    def oldest_ms(self) -> int | None:
        """The append time of the oldest record in work, in milliseconds; `None` where there is none."""
        times = (state.offsets.oldest_ms for state in self._partitions.values())
        return min((at for at in times if at is not None), default=None)

    def acked(self) -> dict[LogicalPartition, int]:
        """Newest acked offset of each partition in this assignment."""
        return {partition: state.acked for partition, state in self._partitions.items() if state.acked is not None}

    # ---- taking records

    async def submit(self, record: Record, *, barrier: bool = False) -> bool:
        """Take a record as soon as there is room; returns False when it was dropped.

        Records are dropped after a revocation or a failure, and when they were taken before. A barrier starts when
        every earlier record of its partition is done, and holds back all later ones.
        """
        state = self._state_of((record.topic, record.partition))
        assignment = self._assignment
        await self._until(lambda: assignment.revoked or not self.taking or self._has_room(state, barrier=barrier))
        if assignment.revoked or not self.taking or not state.offsets.enter(record.offset, record.timestamp_ms):
            return False
        job = self._job(record, state)
        if self._queues.add(job.ordering_key, job):
            self._pump()
        if barrier:
            await self._until(lambda: assignment.revoked or not self.taking or not state.offsets.outstanding)
        return True

    def pass_over(self, topic: str, partition: int, offset: int) -> None:
        """Note that every record before ``offset`` was taken: all before it is acked once these are done.

        The end of a transaction, and what it aborted, have offsets and no record; they would be lag for ever.
        """
        state = self._state_of((topic, partition))
        if self.taking and state.offsets.enter(offset - 1):
            state.finish(offset - 1)

    def _job(self, record: Record, state: PartitionState) -> Job:
        key = ordering_key_of(record)
        before = self._queues.last(key)
        if before is not None:  # thousands of records of an import wait with one key: they share its bytes
            record = replace(record, key=before.record.key)
        return Job(record, key, state, self._urgent(record), shares_key=before is not None)

    def note_behind(self, is_behind: bool) -> None:
        """Note whether the log has more records; as long as they are read ahead, reading goes before handling."""
        if self._is_behind != is_behind:
            self._is_behind = is_behind
            self._pump()

    def _state_of(self, partition: LogicalPartition) -> PartitionState:
        state = self._partitions.get(partition)
        if state is None:
            state = PartitionState(partition, self._assignment, self._callbacks, self._rounds)
            self._partitions[partition] = state
        return state

    def _has_room(self, state: PartitionState, *, barrier: bool) -> bool:
        if barrier:
            return not state.offsets.outstanding
        limits, waiting = self._limits, self._queues.waiting
        queued, taken = limits.max_queued, waiting + self._work.records
        has_queue = waiting < queued and taken < queued + limits.concurrency
        fits = self._taken_bytes < limits.queued_bytes and state.offsets.outstanding < limits.window
        return (has_queue and fits) or self.held_bytes < limits.ahead_bytes

    def _pump(self) -> None:
        while self._queues.any and self._may_start() and self.taking:
            self._starts.count()
            batch = self._queues.take(self._limits.batch)
            self._work.begin(asyncio.create_task(self._handle_batch(batch, self._assignment)), batch)
        self._changed.set()
        if self._queues.any and self.taking and self._work.keys < self._limits.concurrency:
            self._starts.look_again()

    def _may_start(self) -> bool:
        in_work, limits = self._work.keys, self._limits
        if in_work >= limits.concurrency:
            return False
        if self._queues.any_urgent:
            return True
        most = self._backpressure()
        if not self._starts.any_left(under_backpressure=most is not None):
            return False
        if in_work and self._is_behind and self.held_bytes < limits.ahead_bytes:
            return False
        return most is None or in_work < most

    # ---- handling records

    async def _handle_batch(self, batch: Batch, assignment: Assignment) -> None:
        try:
            await self._handle([job.record for job in batch], assignment)
            self._finish(batch, assignment)
        except Revoked:
            self._leave_unacked(batch, assignment)
        except asyncio.CancelledError as error:
            self._fail(batch, assignment, error)
            raise
        except Exception as error:
            self._fail(batch, assignment, error)
        finally:
            self._work.end(asyncio.current_task())
            self._pump()

    def _finish(self, batch: Batch, assignment: Assignment) -> None:
        if assignment.closed:
            return
        for job in batch:
            job.state.finish(job.record.offset)
        self._queues.done(batch[0].ordering_key)

    def _leave_unacked(self, batch: Batch, assignment: Assignment) -> None:
        if assignment.closed:
            return
        self._queues.halt(batch[0].ordering_key)
        if not assignment.revoked:
            log.warning("record returned without a rebalance: %s", place_of(batch))
            if self._on_revoked:
                for partition in {job.state.partition for job in batch}:
                    self._on_revoked(*partition)

    def _fail(self, batch: Batch, assignment: Assignment, error: BaseException) -> None:
        if assignment.closed:
            return
        # an error of our own ends the process, which reports it in a line: only of a bug is the place in the code told
        frames = None if isinstance(error, EunoeError) else error
        log.error("handler failed: %s: %.200r", place_of(batch), error, exc_info=frames)
        self._queues.halt(batch[0].ordering_key)
        self._failure = self._failure or error

    def _acks_returned(self, partition: LogicalPartition) -> None:
        log.warning("records returned before their ack: %s/%d", *partition)
        if self._on_revoked:
            self._on_revoked(*partition)

    def _acks_flushed(self, failure: BaseException | None) -> None:
        self._failure = self._failure or failure
        self._changed.set()

    # ---- rebalance and shutdown

    async def revoke(self, grace_s: float) -> None:
        """Drop waiting records, wait ``grace_s`` seconds for those in work, cancel the rest.

        Records that finish in time, with none unfinished before them, are acked before this returns; none is acked
        afterwards.
        """
        self._assignment.revoke()
        self._rounds.hurry()
        self._queues.drop()
        self._changed.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        await _wait_for(set(self._work.running), grace_s)
        await self._finish_acks(deadline)
        self._assignment.close()
        late = self._work.running
        if late:
            first = place_of(next(iter(late.values())))
            log.warning("handlers cancelled at the deadline: %d, the first one %s", len(late), first)
        for task in late:
            task.cancel()
        # a handler that swallows its cancellation is left behind: its assignment is closed, so it can ack nothing
        await _wait_for(set(late), _CANCEL_S)

    async def _finish_acks(self, deadline: float) -> None:
        """Wait for all acks that are due, until this time of the event loop."""
        loop = asyncio.get_running_loop()
        while any(state.any_ack_due for state in self._partitions.values()) and loop.time() < deadline:
            self._rounds.begin()
            acking = {state.acking for state in self._partitions.values() if state.acking}
            await _wait_for(acking, deadline - loop.time())

    def resume(self) -> None:
        """Begin a new assignment and take records from any offset; a failed dispatcher stays failed."""
        self._assignment.close()
        self._assignment = Assignment()
        self._rounds = AckRounds(self._limits.ack_interval_s)
        self._partitions.clear()
        self._queues.clear()
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


async def _wait_for(tasks: "set[asyncio.Task[None]]", seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=max(seconds, 0.0))
