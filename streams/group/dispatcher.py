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
"""Asked before more than `DispatchLimits.few` keys are taken into work: True to let what is in work get on first."""

OnRevoked = Callable[[str, int], None]
"""Told when a record was given back although its lease stands: the partition is stuck until it is read anew."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """What one dispatcher holds at most."""

    slots: int = 256
    """Keys in work."""
    run: int = 1
    """Waiting records of one key that a `BatchHandler` is given at once."""
    queued: int = 1024
    """Records that wait for their key or a slot; beyond it `Dispatcher.submit` blocks. Long runs count: together with
    those in work there are never more than ``queued`` and one for each slot."""
    window: int = 8192
    """Records of one partition that are not acked, done ones behind an unfinished one included."""
    few: int = 4
    """Keys in work that are never too many."""


@dataclass(frozen=True, slots=True)
class _Job:
    record: Record
    chain: OrderingKey
    lane: PartitionState
    taken: float = field(default_factory=perf_counter)


_Run = tuple[_Job, ...]


def one_by_one(handle: Handler) -> BatchHandler:
    """A handler of runs that takes each record for itself."""

    async def handle_run(records: Sequence[Record], lease: Lease) -> None:
        for record in records:
            await handle(record, lease)

    return handle_run


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
        gave_way: OnRevoked | None = None,
        crowded: Overloaded = lambda: False,
        limits: DispatchLimits | None = None,
    ) -> None:
        self._handle = handle
        self._outlet = Outlet(ack, before_ack, self._settled)
        self._gave_way = gave_way
        self._crowded = crowded
        self._limits = limits or DispatchLimits()
        self._term = Assignment()
        self._lanes: dict[Place, PartitionState] = {}
        self._queues = FairQueues[_Job]()
        self._running: dict[asyncio.Task[None], _Run] = {}
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
        return not self._term.revoked and self._failure is None

    async def failed(self) -> BaseException:
        """Wait until the dispatcher has failed, and say why."""
        await self._until(lambda: self._failure is not None)
        assert self._failure is not None
        return self._failure

    def outstanding(self, topic: str, partition: int) -> int:
        """Records of a partition that were taken in this term and are not done, or done behind an unfinished one."""
        lane = self._lanes.get((topic, partition))
        return lane.gate.outstanding if lane else 0

    def last_taken(self, topic: str, partition: int) -> int | None:
        """The newest offset of a partition that was taken in this term."""
        lane = self._lanes.get((topic, partition))
        return lane.gate.last if lane else None

    def acked(self) -> dict[Place, int]:
        """The newest acked offset of each partition in this term."""
        return {place: lane.released for place, lane in self._lanes.items() if lane.released is not None}

    # ---- taking records

    async def submit(self, record: Record, *, barrier: bool = False) -> bool:
        """Take a record when there is room; False when it was dropped: revoked, failed, or taken before.

        A barrier starts when every earlier record of its partition is done, and holds back all that come after it.
        """
        lane = self._lane((record.topic, record.partition))
        term = self._term
        await self._until(lambda: term.revoked or not self.taking or self._has_room(lane, barrier=barrier))
        if term.revoked or not self.taking or not lane.gate.enter(record.offset):
            return False
        chain = ordering_key_of(record)
        if self._queues.add(chain, _Job(record, chain, lane)):
            self._pump()
        if barrier:
            await self._until(lambda: term.revoked or not self.taking or not lane.gate.outstanding)
        return True

    def _lane(self, place: Place) -> PartitionState:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = PartitionState(place, self._term, self._outlet)
        return lane

    def _has_room(self, lane: PartitionState, *, barrier: bool) -> bool:
        if barrier:
            return not lane.gate.outstanding
        limits, waiting = self._limits, self._queues.waiting
        has_memory = waiting < limits.queued and waiting + self._in_work < limits.queued + limits.slots
        return has_memory and lane.gate.outstanding < limits.window

    def _pump(self) -> None:
        while self._queues.any and self._has_slot() and self.taking:
            run = self._queues.take(self._limits.run)
            self._in_work += len(run)
            now = perf_counter()
            self._waited_s += sum(now - job.taken for job in run)
            self._running[asyncio.create_task(self._work(run, self._term))] = run
        self._changed.set()
        if self._queues.any and self.taking and len(self._running) < self._limits.slots:
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
        return in_work < self._limits.slots and (in_work < self._limits.few or not self._crowded())

    # ---- doing them

    async def _work(self, run: _Run, term: Assignment) -> None:
        try:
            await self._handle([job.record for job in run], term)
            self._finish(run, term)
        except Revoked:
            self._give_way(run, term)
        except asyncio.CancelledError as error:
            self._fail(run, term, error)
            raise
        except Exception as error:
            self._fail(run, term, error)
        finally:
            self._running.pop(_this_task(), None)
            self._in_work -= len(run)
            self._pump()

    def _finish(self, run: _Run, term: Assignment) -> None:
        if term.closed:
            return
        for job in run:
            job.lane.leave(job.record.offset)
        self._queues.done(run[0].chain)

    def _give_way(self, run: _Run, term: Assignment) -> None:
        if term.closed:
            return
        self._queues.halt(run[0].chain)
        if not term.revoked:
            log.warning("a record was given back without a rebalance: %s", _where(run))
            if self._gave_way:
                for place in {job.lane.place for job in run}:
                    self._gave_way(*place)

    def _fail(self, run: _Run, term: Assignment, error: BaseException) -> None:
        if term.closed:
            return
        log.error("handler failed at %s: %.200r", _where(run), error, exc_info=error)
        self._queues.halt(run[0].chain)
        self._failure = self._failure or error

    def _settled(self, failure: BaseException | None) -> None:
        self._failure = self._failure or failure
        self._changed.set()

    # ---- rebalance and shutdown

    async def revoke(self, grace_s: float) -> None:
        """Drop what is not started, wait ``grace_s`` for what is, cancel the rest.

        What finished in time and has nothing unfinished before it is acked before this returns; nothing is after.
        """
        self._term.revoke()
        self._queues.drop()
        self._changed.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        await _wait_for(set(self._running), grace_s)
        await _wait_for({lane.releasing for lane in self._lanes.values() if lane.releasing}, deadline - loop.time())
        self._term.close()
        late = dict(self._running)
        for task, run in late.items():
            log.warning("cancelled at the deadline: %s", _where(run))
            task.cancel()
        # a handler that swallows its cancellation is left behind: its term is closed, so it can ack nothing
        await _wait_for(set(late), _CANCEL_S)

    def forget_acks(self) -> None:
        """After `revoke`: let no position out any more, for instance where an earlier one shall be committed."""
        self._lanes.clear()

    def resume(self) -> None:
        """Take records anew, from whatever offset they come; a failed dispatcher stays failed."""
        self._term.close()
        self._term = Assignment()
        self._lanes.clear()
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


def _where(run: _Run) -> str:
    first, last = run[0].record, run[-1].record
    more = f" … {last.offset}" if last is not first else ""
    return f"{first.topic}/{first.partition}/{first.offset}{more}"
