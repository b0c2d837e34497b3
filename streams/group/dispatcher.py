"""Keyed dispatch: records of one key one at a time and in order, different keys side by side, acks in log order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from eunoe.streams.group.fair_queues import FairQueues, OrderingKey
from eunoe.streams.group.partition import Ack, Assignment, BeforeAck, Outlet, PartitionState, Place
from eunoe.streams.record import Lease, Record, Revoked

log = logging.getLogger(__name__)

_CANCEL_S = 1.0
_CROWD_S = 0.05

Handler = Callable[[Record, Lease], Awaitable[None]]
"""Does the work of one record; returns when it is done for good."""

BatchHandler = Callable[[Sequence[Record], Lease], Awaitable[None]]
"""Does the work of records of one key that follow each other; returns when all of it is done for good."""

Overloaded = Callable[[], bool]
"""Backpressure: while it returns true, at most `DispatchLimits.min_active` keys run."""

OnRevoked = Callable[[str, int], None]
"""Told when a record was given back although its lease stands: the partition is stuck until it is read anew."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """What one dispatcher holds at most."""

    concurrency: int = 256
    """Keys in work."""
    batch: int = 1
    """Waiting records of one key that a `BatchHandler` is given at once."""
    queued: int = 1024
    """Records that wait for their key or a slot; beyond it `Dispatcher.submit` blocks. Long runs count: together with
    those in work there are never more than ``queued`` and one for each slot."""
    window: int = 8192
    """Records of one partition that are not acked, done ones behind an unfinished one included."""
    min_active: int = 4
    """Keys in work that are never too many."""


@dataclass(frozen=True, slots=True)
class _Job:
    record: Record
    ordering_key: OrderingKey
    state: PartitionState
    taken: float = field(default_factory=perf_counter)


_Batch = tuple[_Job, ...]


def one_by_one(handle: Handler) -> BatchHandler:
    """A handler of runs that takes each record for itself."""

    async def handle_batch(records: Sequence[Record], lease: Lease) -> None:
        for record in records:
            await handle(record, lease)

    return handle_batch


def ordering_key_of(record: Record) -> OrderingKey:
    """The key that orders a record, over all topics; without a key its partition."""
    return record.key if record.key is not None else (record.topic, record.partition)


class Dispatcher:
    """Takes records in log order and runs a handler on them; what waits of one key it may be given as one run.

    A handler that raises `Revoked` leaves its records, and all later ones of their key and partition, un-acked. One
    that raises anything else ends the dispatcher: it takes nothing more and tells by `failed`.
    """

    def __init__(
        self,
        handle: BatchHandler,
        ack: Ack,
        *,
        before_ack: BeforeAck | None = None,
        on_revoked: OnRevoked | None = None,
        overloaded: Overloaded = lambda: False,
        limits: DispatchLimits | None = None,
    ) -> None:
        self._handle = handle
        self._outlet = Outlet(ack, before_ack, self._flushed)
        self._revoked = on_revoked
        self._overloaded = overloaded
        self._limits = limits or DispatchLimits()
        self._assignment = Assignment()
        self._partitions: dict[Place, PartitionState] = {}
        self._queues = FairQueues[_Job]()
        self._running: dict[asyncio.Task[None], _Batch] = {}
        self._in_work = 0
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._waited_s = 0.0
        self._later: asyncio.TimerHandle | None = None

    # ---- what the owner asks

    @property
    def in_work(self) -> int:
        """Records whose handler runs."""
        return self._in_work

    @property
    def queued(self) -> int:
        """Records that wait for their key or a slot."""
        return self._queues.waiting

    @property
    def waited_s(self) -> float:
        """Seconds that all records together have waited for their key or a slot."""
        return self._waited_s

    @property
    def failure(self) -> BaseException | None:
        """What a handler raised, finally."""
        return self._failure

    @property
    def taking(self) -> bool:
        """False: revoked or failed, records are dropped."""
        return not self._assignment.revoked and self._failure is None

    async def failed(self) -> BaseException:
        """Wait until the dispatcher has failed, and say why."""
        await self._until(lambda: self._failure is not None)
        assert self._failure is not None
        return self._failure

    def outstanding(self, topic: str, partition: int) -> int:
        """Records of a partition that were taken in this term and are not done, or done behind an unfinished one."""
        state = self._partitions.get((topic, partition))
        return state.offsets.outstanding if state else 0

    def last_taken(self, topic: str, partition: int) -> int | None:
        """The newest offset of a partition that was taken in this term."""
        state = self._partitions.get((topic, partition))
        return state.offsets.last if state else None

    def acked(self) -> dict[Place, int]:
        """The newest acked offset of each partition in this term."""
        return {place: state.released for place, state in self._partitions.items() if state.released is not None}

    # ---- taking records

    async def submit(self, record: Record, *, barrier: bool = False) -> bool:
        """Take a record when there is room; False when it was dropped: revoked, failed, or taken before.

        A barrier starts when every earlier record of its partition is done, and holds back all that come after it.
        """
        state = self._state_of((record.topic, record.partition))
        assignment = self._assignment
        await self._until(lambda: assignment.revoked or not self.taking or self._has_room(state, barrier=barrier))
        if assignment.revoked or not self.taking or not state.offsets.enter(record.offset):
            return False
        ordering_key = ordering_key_of(record)
        if self._queues.add(ordering_key, _Job(record, ordering_key, state)):
            self._pump()
        if barrier:
            await self._until(lambda: assignment.revoked or not self.taking or not state.offsets.outstanding)
        return True

    def _state_of(self, place: Place) -> PartitionState:
        state = self._partitions.get(place)
        if state is None:
            state = self._partitions[place] = PartitionState(place, self._assignment, self._outlet)
        return state

    def _has_room(self, state: PartitionState, *, barrier: bool) -> bool:
        if barrier:
            return not state.offsets.outstanding
        limits, waiting = self._limits, self._queues.waiting
        has_memory = waiting < limits.queued and waiting + self._in_work < limits.queued + limits.concurrency
        return has_memory and state.offsets.outstanding < limits.window

    def _pump(self) -> None:
        while self._queues.any and self._has_slot() and self.taking:
            batch = self._queues.take(self._limits.batch)
            self._in_work += len(batch)
            now = perf_counter()
            self._waited_s += sum(now - job.taken for job in batch)
            self._running[asyncio.create_task(self._work(batch, self._assignment))] = batch
        self._changed.set()
        if self._queues.any and self.taking and len(self._running) < self._limits.concurrency:
            self._pump_later()

    def _pump_later(self) -> None:
        """A crowd may be over long before what is in work is done: it may wait for a model."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_CROWD_S, self._pump_again)

    def _pump_again(self) -> None:
        self._later = None
        self._pump()

    def _has_slot(self) -> bool:
        in_work = len(self._running)
        return in_work < self._limits.concurrency and (in_work < self._limits.min_active or not self._overloaded())

    # ---- doing them

    async def _work(self, batch: _Batch, assignment: Assignment) -> None:
        try:
            await self._handle([job.record for job in batch], assignment)
            self._finish(batch, assignment)
        except Revoked:
            self._give_way(batch, assignment)
        except asyncio.CancelledError as error:
            self._fail(batch, assignment, error)
            raise
        except Exception as error:
            self._fail(batch, assignment, error)
        finally:
            self._running.pop(_this_task(), None)
            self._in_work -= len(batch)
            self._pump()

    def _finish(self, batch: _Batch, assignment: Assignment) -> None:
        if assignment.closed:
            return
        for job in batch:
            job.state.leave(job.record.offset)
        self._queues.done(batch[0].ordering_key)

    def _give_way(self, batch: _Batch, assignment: Assignment) -> None:
        if assignment.closed:
            return
        self._queues.halt(batch[0].ordering_key)
        if not assignment.revoked:
            log.warning("a record was given back without a rebalance: %s", _where(batch))
            if self._revoked:
                for place in {job.state.place for job in batch}:
                    self._revoked(*place)

    def _fail(self, batch: _Batch, assignment: Assignment, error: BaseException) -> None:
        if assignment.closed:
            return
        log.error("handler failed at %s: %.200r", _where(batch), error, exc_info=error)
        self._queues.halt(batch[0].ordering_key)
        self._failure = self._failure or error

    def _flushed(self, failure: BaseException | None) -> None:
        self._failure = self._failure or failure
        self._changed.set()

    # ---- rebalance and shutdown

    async def revoke(self, grace_s: float) -> None:
        """Drop what is not started, wait ``grace_s`` for what is, cancel the rest.

        What finished in time and has nothing unfinished before it is acked before this returns; nothing is after.
        """
        self._assignment.revoke()
        self._queues.drop()
        self._changed.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        await _wait_for(set(self._running), grace_s)
        await _wait_for(
            {state.releasing for state in self._partitions.values() if state.releasing}, deadline - loop.time()
        )
        self._assignment.close()
        late = dict(self._running)
        for task, batch in late.items():
            log.warning("cancelled at the deadline: %s", _where(batch))
            task.cancel()
        # a handler that swallows its cancellation is left behind: its term is closed, so it can ack nothing
        await _wait_for(set(late), _CANCEL_S)

    def forget_acks(self) -> None:
        """After `revoke`: let no position out any more, for instance where an earlier one shall be committed."""
        self._partitions.clear()

    def resume(self) -> None:
        """Take records anew, from whatever offset they come; a failed dispatcher stays failed."""
        self._assignment.close()
        self._assignment = Assignment()
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


def _this_task() -> "asyncio.Task[None]":
    task = asyncio.current_task()
    assert task is not None
    return task


def _where(batch: _Batch) -> str:
    first, last = batch[0].record, batch[-1].record
    more = f" … {last.offset}" if last is not first else ""
    return f"{first.topic}/{first.partition}/{first.offset}{more}"
