"""Keyed dispatch: records of one key one at a time and in order, different keys side by side, acks in log order."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from eunoe.streams.gate import Gate
from eunoe.streams.record import GiveWay, Lease, Record

log = logging.getLogger(__name__)

_CANCEL_S = 1.0
_CROWD_S = 0.05

Handler = Callable[[Record, Lease], Awaitable[None]]
"""Does the work of one record; returns when it is done for good."""

RunHandler = Callable[[Sequence[Record], Lease], Awaitable[None]]
"""Does the work of records of one key that follow each other; returns when all of it is done for good."""

Place = tuple[str, int]
"""Logical topic and partition."""

Ack = Callable[[str, int, int], None]
"""Topic, partition, offset: everything up to this offset is done."""

BeforeAck = Callable[[str, int, int, Lease], Awaitable[None]]
"""Awaited with the same before the ack."""

Crowded = Callable[[], bool]
"""Asked before more than `DispatchLimits.few` keys are taken into work: True to let what is in work get on first."""

GaveWay = Callable[[str, int], None]
"""Told when a record was given back although its lease stands: the partition is stuck until it is read anew."""

Chain = bytes | Place
"""What is kept in order: a key, or for records without a key their partition."""


@dataclass(frozen=True, slots=True)
class DispatchLimits:
    """What one dispatcher holds at most."""

    slots: int = 256
    """Keys in work."""
    run: int = 1
    """Waiting records of one key that a `RunHandler` is given at once."""
    queued: int = 1024
    """Records that wait for their key or a slot; beyond it `Dispatcher.submit` blocks. Long runs count: together with
    those in work there are never more than ``queued`` and one for each slot."""
    window: int = 8192
    """Records of one partition that are not acked, done ones behind an unfinished one included."""
    few: int = 4
    """Keys in work that are never too many."""


class Term:
    """The time between two rebalances, and the lease of every record taken in it."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.closed = False
        """True: what finishes now is not acked any more."""

    @property
    def revoked(self) -> bool:
        """True: finish what is started, wait for nothing."""
        return self._over.is_set()

    def revoke(self) -> None:
        """Begin the end."""
        self._over.set()

    async def pause(self, seconds: float) -> None:
        """Sleep; raises `GiveWay` as soon as the term is revoked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        if self.revoked:
            raise GiveWay("a rebalance or a shutdown has begun")


@dataclass(slots=True)
class _Lane:
    """One partition in one term."""

    place: Place
    gate: Gate = field(default_factory=Gate)
    pending: int | None = None
    released: int | None = None
    releasing: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    record: Record
    chain: Chain
    lane: _Lane
    taken: float = field(default_factory=perf_counter)


_Run = tuple[_Job, ...]


def one_by_one(handle: Handler) -> RunHandler:
    """A handler of runs that takes each record for itself."""

    async def handle_run(records: Sequence[Record], lease: Lease) -> None:
        for record in records:
            await handle(record, lease)

    return handle_run


def chain_of(record: Record) -> Chain:
    """The key that orders a record, over all topics; without a key its partition."""
    return record.key if record.key is not None else (record.topic, record.partition)


class Dispatcher:
    """Takes records in log order and runs a handler on them; what waits of one key it may be given as one run.

    A handler that raises `GiveWay` leaves its records, and all later ones of their key and partition, un-acked. One
    that raises anything else ends the dispatcher: it takes nothing more and tells by `failed`.
    """

    def __init__(
        self,
        handle: RunHandler,
        ack: Ack,
        *,
        before_ack: BeforeAck | None = None,
        gave_way: GaveWay | None = None,
        crowded: Crowded = lambda: False,
        limits: DispatchLimits | None = None,
    ) -> None:
        self._handle = handle
        self._ack = ack
        self._before_ack = before_ack
        self._gave_way = gave_way
        self._crowded = crowded
        self._limits = limits or DispatchLimits()
        self._term = Term()
        self._lanes: dict[Place, _Lane] = {}
        self._chains: dict[Chain, deque[_Job]] = {}
        self._fresh: deque[Chain] = deque()
        self._waited: deque[Chain] = deque()
        self._fresh_next = True
        self._running: dict[asyncio.Task[None], _Run] = {}
        self._halted: set[Chain] = set()
        self._queued = 0
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
        return self._queued

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
        lane = self._lanes.setdefault((record.topic, record.partition), _Lane((record.topic, record.partition)))
        term = self._term
        await self._until(lambda: term.revoked or not self.taking or self._has_room(lane, barrier=barrier))
        if term.revoked or not self.taking or not lane.gate.enter(record.offset):
            return False
        self._enqueue(_Job(record, chain_of(record), lane))
        if barrier:
            await self._until(lambda: term.revoked or not self.taking or not lane.gate.outstanding)
        return True

    def _has_room(self, lane: _Lane, *, barrier: bool) -> bool:
        if barrier:
            return not lane.gate.outstanding
        limits = self._limits
        has_memory = self._queued < limits.queued and self._queued + self._in_work < limits.queued + limits.slots
        return has_memory and lane.gate.outstanding < limits.window

    def _enqueue(self, job: _Job) -> None:
        if job.chain in self._halted:
            return
        chain = self._chains.get(job.chain)
        if chain is None:
            self._chains[job.chain] = deque((job,))
            self._fresh.append(job.chain)
        else:
            chain.append(job)
        self._queued += 1
        self._pump()

    def _pump(self) -> None:
        while (self._fresh or self._waited) and self._has_slot() and self.taking:
            chain = self._chains[self._next_chain()]
            run = tuple(chain.popleft() for _ in range(min(len(chain), self._limits.run)))
            self._queued -= len(run)
            self._in_work += len(run)
            now = perf_counter()
            self._waited_s += sum(now - job.taken for job in run)
            self._running[asyncio.create_task(self._work(run, self._term))] = run
        self._changed.set()
        if (self._fresh or self._waited) and self.taking and len(self._running) < self._limits.slots:
            self._pump_later()

    def _pump_later(self) -> None:
        """A crowd may be over long before what is in work is done: it may wait for a model."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_CROWD_S, self._pump_again)

    def _pump_again(self) -> None:
        self._later = None
        self._pump()

    def _next_chain(self) -> Chain:
        """A key that comes anew and one that has waited by turns: who says one thing need not wait for who imports."""
        first, other = (self._fresh, self._waited) if self._fresh_next else (self._waited, self._fresh)
        self._fresh_next = not self._fresh_next
        return (first or other).popleft()

    def _has_slot(self) -> bool:
        in_work = len(self._running)
        return in_work < self._limits.slots and (in_work < self._limits.few or not self._crowded())

    # ---- doing them

    async def _work(self, run: _Run, term: Term) -> None:
        done = False
        try:
            await self._handle([job.record for job in run], term)
            done = True
        except GiveWay:
            self._give_way(run, term)
        except asyncio.CancelledError as error:
            self._fail(run, term, error)
            raise
        except Exception as error:
            self._fail(run, term, error)
        finally:
            self._running.pop(_this_task(), None)
            self._in_work -= len(run)
            if not term.closed:
                self._after(run, term, done=done)
            self._pump()

    def _after(self, run: _Run, term: Term, *, done: bool) -> None:
        for job in run if done else ():
            self._pass(job.lane, job.record.offset, term)
        chain = run[0].chain
        waiting = self._chains.get(chain)
        if waiting and done:
            self._waited.append(chain)
        elif waiting is not None:
            self._queued -= len(self._chains.pop(chain))

    def _give_way(self, run: _Run, term: Term) -> None:
        if term.closed:
            return
        self._halted.add(run[0].chain)
        if not term.revoked:
            log.warning("a record was given back without a rebalance: %s", _where(run))
            if self._gave_way:
                for place in {job.lane.place for job in run}:
                    self._gave_way(*place)

    def _fail(self, run: _Run, term: Term, error: BaseException) -> None:
        if term.closed:
            return
        log.error("handler failed at %s: %.200r", _where(run), error, exc_info=error)
        self._halted.add(run[0].chain)
        self._failure = self._failure or error

    # ---- letting acks out

    def _pass(self, lane: _Lane, offset: int, term: Term) -> None:
        newest = lane.gate.leave(offset)
        if newest is None:
            return
        if self._before_ack is None:
            self._release(lane, newest)
            return
        lane.pending = newest
        if lane.releasing is None:
            lane.releasing = asyncio.create_task(self._release_after(self._before_ack, lane, term))

    async def _release_after(self, before_ack: BeforeAck, lane: _Lane, term: Term) -> None:
        try:
            while lane.pending is not None:
                newest, lane.pending = lane.pending, None
                await before_ack(*lane.place, newest, term)
                if term.closed:
                    return
                self._release(lane, newest)
        except GiveWay:
            lane.pending = None  # nothing is acked: the next owner has these records again
        except Exception as error:
            if not term.closed:
                log.exception("nothing more is acked in %s/%d", *lane.place)
                self._failure = self._failure or error
        finally:
            lane.releasing = None
            self._changed.set()

    def _release(self, lane: _Lane, offset: int) -> None:
        lane.released = offset
        self._ack(*lane.place, offset)

    # ---- rebalance and shutdown

    async def revoke(self, grace_s: float) -> None:
        """Drop what is not started, wait ``grace_s`` for what is, cancel the rest.

        What finished in time and has nothing unfinished before it is acked before this returns; nothing is after.
        """
        self._term.revoke()
        self._chains.clear()
        self._fresh.clear()
        self._waited.clear()
        self._queued = 0
        self._changed.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        await _finish(set(self._running), grace_s)
        await _finish({lane.releasing for lane in self._lanes.values() if lane.releasing}, deadline - loop.time())
        self._term.closed = True
        late = dict(self._running)
        for task, run in late.items():
            log.warning("cancelled at the deadline: %s", _where(run))
            task.cancel()
        # a handler that swallows its cancellation is left behind: its term is closed, so it can ack nothing
        await _finish(set(late), _CANCEL_S)

    def forget_acks(self) -> None:
        """After `revoke`: let no position out any more, for instance where an earlier one shall be committed."""
        self._lanes.clear()

    def resume(self) -> None:
        """Take records anew, from whatever offset they come; a failed dispatcher stays failed."""
        self._term.revoke()
        self._term.closed = True
        self._term = Term()
        self._lanes.clear()
        self._chains.clear()
        self._fresh.clear()
        self._waited.clear()
        self._halted.clear()
        self._queued = 0
        self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


async def _finish(tasks: "set[asyncio.Task[None]]", seconds: float) -> None:
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
