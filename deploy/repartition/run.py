"""Changes the number of partitions: copies the log, rebuilds the memory from the copy, switches over.

The old generation answers until the switch, the new one from then on; no worker stops. Records that come into the old
log between the switch and its closing are forwarded, later ones are refused by its handlers
(`eunoe.deploy.process.retired_log`). Each step is idempotent: the same command continues an interrupted attempt.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from eunoe.deploy.clients.connect import environment
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.shared import open_publisher, open_redis
from eunoe.deploy.generations.erase.loop import no_erasure
from eunoe.deploy.generations.promotion import caught_up
from eunoe.deploy.generations.rebuild.begun import make_topics
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.progress import ProgressLine, RebuildProgress, ReportRebuild
from eunoe.deploy.generations.rebuild.run import rebuild
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.process.retired_log import begin_at
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.repartition.moving import LogEnd, LogMove
from eunoe.deploy.repartition.plan import Move
from eunoe.deploy.repartition.sealed import SealedMove
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams.reader import read_all, topic_size
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.records.generations import GenerationState, RedisGenerations

FEW = 500
"""Records of a copying round below which the switch begins; so few are copied within a second."""
ROUNDS = 10
"""Maximum number of copying rounds before the switch; later records are forwarded."""


@dataclass(frozen=True, slots=True)
class RebuildProcesses:
    """The processes that build the new generation."""

    count: int
    forks: ForkServer | None = None
    """See `eunoe.deploy.generations.rebuild.processes.forks_for_shares`."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a change of partitions."""

    copied: int
    """Records that the new log took from the old one."""
    left_out: int
    """Records that intake had dead-lettered, which were not copied."""
    made: ProgressLine
    """Counts of the rebuild; zeros where an earlier attempt did it."""
    note: str = ""


async def repartition(
    move: Move, closing: AsyncExitStack, report: ReportRebuild, report_lag: ReportCount, processes: RebuildProcesses
) -> tuple[Moved, WorkerProcess]:
    """Run all steps; returns the result and the new generation's worker, which runs until ``closing`` is closed.

    ``report_lag`` is called with the number of records that the new generation is behind; ``processes`` rebuild it.
    After an interruption at any point, call it again with a new `survey`. Raises `Refused` where a client produced into
    the new log before it was ready, `Unavailable` when a server is down.
    """
    redis = await closing.enter_async_context(open_redis(move.source))
    work = RepartitionJob(move, RedisGenerations(redis, move.source.prefix), report, processes)
    await work.begin(closing)
    worker = WorkerProcess(["all"], environment(move.target))
    closing.push_async_callback(worker.stop)
    await worker.start()
    await work.catch_up(report_lag)
    await work.change_over()
    return replace(work.done, note=await _wait_for_old(move)), worker


class RepartitionJob:
    """The steps of a change of partitions, each idempotent."""

    def __init__(
        self,
        move: Move,
        registry: RedisGenerations,
        report: ReportRebuild,
        processes: RebuildProcesses,
        log: LogMove | None = None,
    ) -> None:
        self._move = move
        self._registry = registry
        self._report = report
        self._processes = processes
        self._row = move.row
        self._made = ProgressLine()
        self._log = log
        self._sealed = 0

    @property
    def _logs(self) -> LogMove:
        assert self._log is not None
        return self._log

    @property
    def done(self) -> Moved:
        """The result so far."""
        return Moved(self._logs.taken + self._sealed, self._logs.left_out, self._made)

    async def begin(self, closing: AsyncExitStack) -> None:
        """Copy the log and build a generation from the copy; an erasure that runs is waited for."""
        move = self._move
        if move.is_new:
            async with no_erasure(move.source):  # one that runs would seal anew what was copied before
                await self._registry.write(self._row)
        target = move.target
        await make_topics(move.source, target, move.partitions)
        data_keys = await closing.enter_async_context(open_data_keys(target))
        total = await topic_size(move.source.kafka_settings, move.source.names, Topic.CONVERSATIONS)
        self._log = LogMove(
            await _side(move.source, move.before, closing),
            await _side(target, move.partitions, closing, data_keys),
            move.source.log_epoch,
            self._row.name,
            await self._registry.announce(self._row.name),
            await read_erased(move.source),
            lambda taken: self._report(RebuildProgress("log copied", taken, max(total, taken))),
        )
        if data_keys is not None and self._row.state is GenerationState.BUILDING:
            there = await _side(move.source, move.before, closing, data_keys, Topic.LOG)
            here = await _side(target, move.partitions, closing, data_keys, Topic.LOG)
            self._sealed = await SealedMove(there, here, data_keys).copy()
        await self._logs.look(strict=self._row.state is not GenerationState.MOVING)
        await self._logs.copy()
        if self._row.state is GenerationState.BUILDING:
            await self._rebuild()

    async def _rebuild(self) -> None:
        row, processes = self._row, self._processes
        plan = RebuildPlan(
            row.name, changes=row.changes, workers=processes.count, log=row.log, partitions=self._move.partitions
        )
        self._made = (await rebuild(self._move.source, plan, self._report, processes.forks)).made
        await begin_at(self._move.target, self._logs.source.log, self._logs.next_offsets)
        self._row = row.model_copy(update={"state": GenerationState.BUILT})

    async def catch_up(self, report_lag: ReportCount) -> None:
        """Copy records that came in meanwhile, until they are few and the new generation has handled them."""
        for _ in range(ROUNDS):
            copied = await self._logs.copy()
            await caught_up(self._move.target, report_lag)
            if copied <= FEW:
                return

    async def change_over(self) -> None:
        """Hand over the asks, then the readers, then close the old log; forward records that come in meanwhile."""
        source = self._logs.source.log
        if await self._registry.closed_log(source) is None:
            if self._row.state is not GenerationState.MOVING:
                await self._logs.look()
                await self._write(GenerationState.MOVING)
            await self._logs.hand_over()
            while not self._logs.seen:
                await self._logs.copy()
            await self._logs.open()
            await self._logs.forward()
            await self._registry.promote(self._row.name)
            await self._logs.forward()
            await self._registry.close_log(source, self._logs.next_offsets)
        await self._write(GenerationState.BUILT)

    async def _write(self, state: GenerationState) -> None:
        self._row = self._row.model_copy(update={"state": state})
        await self._registry.write(self._row)


async def _side(
    settings: Settings,
    partitions: int,
    closing: AsyncExitStack,
    data_keys: CachedKeys | None = None,
    topic: Topic = Topic.CONVERSATIONS,
) -> LogEnd:
    kafka, names = settings.kafka_settings, settings.names

    def read(begin: Mapping[int, int]) -> AsyncIterator[Record]:
        return read_all(kafka, names, topic, begin=begin)

    publisher = await closing.enter_async_context(open_publisher(settings, data_keys))
    return LogEnd(names.log, partitions, read, publisher, is_sealed=data_keys is not None)


async def _wait_for_old(move: Move) -> str:
    """Wait until the old generation has answered its asks; returns a note where it has no workers, else nothing."""
    try:
        await caught_up(move.source, lambda _left: None)
    except Refused as fault:
        return f"asks from before the switch may be unanswered: {fault}"
    return ""
