"""Runs a rebuild: from a plan to a generation that its workers can continue."""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TypeVar

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.live_settings import of_generation
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.generations.erase.loop import no_erasure
from eunoe.deploy.generations.rebuild.answers import fill_lookup
from eunoe.deploy.generations.rebuild.begun import make_topics, redis_processes
from eunoe.deploy.generations.rebuild.keeping import kept_folder, max_age_s
from eunoe.deploy.generations.rebuild.named import check_named
from eunoe.deploy.generations.rebuild.partial import Partial, make_from
from eunoe.deploy.generations.rebuild.plan import RebuildPlan, check_continues, check_from_stage, check_still_building
from eunoe.deploy.generations.rebuild.processes import run_share
from eunoe.deploy.generations.rebuild.progress import PhaseClock, ProgressLine, RebuildProgress, ReportRebuild
from eunoe.deploy.generations.rebuild.reading import LogRead, read_log
from eunoe.deploy.generations.rebuild.share import Share
from eunoe.deploy.generations.rebuild.spool import Spool
from eunoe.deploy.process.forked import ForkServer
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.position_ports import ReadPartition
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.log_reader import log_topics
from eunoe.streams.offsets import commit_offsets, ends_of
from eunoe.streams.position import position
from eunoe.streams.reader import partitions_of, topic_size
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder, StageSpec
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.answers import RedisAnswers
from eunoe.workers.stores.records.generations import FIRST, Generation, GenerationState, RedisGenerations

log = logging.getLogger(__name__)

MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild."""

    generation: str
    state: GenerationState
    made: ProgressLine
    answers: int
    """Recorded answers found in their topic."""
    seconds: float
    """Seconds of deriving; reading the log is not included."""
    note: str = ""
    """The reason why a partial rebuild had to start from an earlier stage; else empty."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Phase (see `RebuildProgress`) → its seconds."""
    read_before: int = 0
    """Records of the log that an interrupted run had read, and that were not read again."""

    @property
    def events_per_s(self) -> float:
        """Events derived per second, without those of conversations that were kept; 0 where none were."""
        derived = self.made.events - self.made.kept_events
        return derived / self.seconds if self.seconds else 0.0


async def rebuild(
    settings: Settings, plan: RebuildPlan, report: ReportRebuild, forks: ForkServer | None = None
) -> Rebuilt:
    """Build a generation from the log, or continue one that was begun with the same plan.

    ``settings`` are those of the live generation. ``forks``: see `forks_for_shares`; without it processes start from
    nothing. An erasure that runs is waited for. After an interruption at any point, call it again: finished
    conversations are kept. Raises `Refused` for a plan that does not fit the existing generations or names a
    conversation that the log does not hold, `Unavailable` when a server stays down.
    """
    check_from_stage(plan)
    target, report = _target(settings, plan), PhaseClock(report)
    (partitions,) = await partitions_of(target.kafka_settings, target.names, [Topic.CONVERSATIONS])
    await check_log_is_open(target.kafka_settings, target.names)
    await check_named(target, plan)
    await redis_processes(target)  # asked for later, too: a user who may not is told before a generation is begun
    async with no_erasure(settings):  # one that runs seals anew, in the log, what this would have read before
        generation = await _begin(settings, plan)
    await make_topics(settings, target, partitions)
    with kept_folder(settings.prefix, generation, max_age_s(target.names)) as work:
        answers = 0 if plan.ask_again else await _fill(target, work / "answers.sqlite", report)
        async with open_clients(target):
            pass  # create the collections once, before several processes do it
        started = monotonic()
        copy = partial(_make_from, settings, target, plan, work, report)
        copied = await until_kept(target, copy) if plan.from_stage else None
        if copied is not None and copied.read is not None:
            read, made, seconds = copied.read, copied.made, monotonic() - started
        else:
            path = work / "log.sqlite"
            read = await _spool(target, plan, path, report)
            started = monotonic()
            made = await until_kept(target, partial(_derive, target, plan, path, read, report, forks))
            seconds = monotonic() - started
        state = GenerationState.PARTIAL if plan.is_partial else GenerationState.BUILT
        if not plan.is_partial:
            await _hand_over(target, read)
        await _complete(settings, generation, state)
    return Rebuilt(
        plan.into, state, made, answers, seconds, "" if copied is None else copied.note, report.seconds, read.before
    )


def _target(settings: Settings, plan: RebuildPlan) -> Settings:
    target = of_generation(settings, plan.into, plan.changes)
    return target if plan.log is None else target.model_copy(update={"log": plan.log})


async def _begin(settings: Settings, plan: RebuildPlan) -> Generation:
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        live = (await registry.pointer()).live or FIRST
        made, there = await registry.find(live), await registry.find(plan.into)
        check_continues(there, plan, live)
        if plan.log is None and made is not None and made.log != settings.names.log:
            left = settings.names.name(Topic.CONVERSATIONS)
            raise Refused(f"{settings.generation} reads {left}, which is not the log of {live}: unset EUNOE_GENERATION")
        generation = there or Generation(
            name=plan.into,
            state=GenerationState.BUILDING,
            made_at=datetime.now(UTC),
            source=live,
            changes=dict(plan.changes),
            plan=plan.options,
            log=_target(settings, plan).names.log,
        )
        await registry.write(generation)
        return generation


async def _complete(settings: Settings, generation: Generation, state: GenerationState) -> None:
    """Write the state of a generation at its end; raises `Refused` where it is no longer the one that was begun."""
    async with open_redis(settings) as redis:
        registry = RedisGenerations(redis, settings.prefix)
        check_still_building(await registry.find(generation.name), generation)
        await registry.write(generation.model_copy(update={"state": state}))


async def _make_from(
    settings: Settings, target: Settings, plan: RebuildPlan, work: Path, report: ReportRebuild
) -> Partial:
    """`make_from` with files that are not kept: what it copies may be another thing by the next run."""
    left = work / "partial"
    shutil.rmtree(left, ignore_errors=True)
    left.mkdir(mode=0o700)
    try:
        return await make_from(settings, target, plan, left, report)
    finally:
        shutil.rmtree(left, ignore_errors=True)


async def _fill(settings: Settings, path: Path, report: ReportRebuild) -> int:
    with contextlib.closing(Spool(path)) as read:
        async with open_data_keys(settings) as data_keys, open_redis(settings) as redis:
            answers = RedisAnswers(redis, store_keys(settings), data_keys=data_keys)
            total = await topic_size(settings.kafka_settings, settings.names, Topic.ANSWERS)
            return await fill_lookup(
                settings, answers, read, lambda done: report(RebuildProgress("answers", done, total))
            )


async def _spool(settings: Settings, plan: RebuildPlan, path: Path, report: ReportRebuild) -> LogRead:
    spool = Spool(path)
    try:
        erased = await read_erased(settings)
        kafka, names = settings.kafka_settings, settings.names
        total = sum([await topic_size(kafka, names, topic) for topic in log_topics(names)])
        return await read_log(settings, plan, spool, lambda done: report(RebuildProgress("log", done, total)), erased)
    finally:
        spool.close()


# ---- the processes


async def until_kept(target: Settings, derive: Callable[[], Awaitable[MadeT]]) -> MadeT:
    """The result of ``derive``, repeated where Redis restarted or another took its place: it may have lost some of it.

    ``derive`` passes over what is there. Raises `Unavailable`.
    """
    before = await redis_processes(target)
    while True:
        made = await derive()
        if (now := await redis_processes(target)) == before:
            return made
        log.warning("Redis was restarted or replaced during the rebuild: what it lost is derived again")
        before = now


async def _derive(
    settings: Settings, plan: RebuildPlan, path: Path, read: LogRead, report: ReportRebuild, forks: ForkServer | None
) -> ProgressLine:
    started, sums = monotonic(), dict[int, ProgressLine]()
    with contextlib.closing(Spool(path)) as spool:
        spool.put_back()

    def received(share: int, line: ProgressLine) -> None:
        sums[share] = add(sums.get(share, ProgressLine()), line)
        made = total(list(sums.values()))
        report(RebuildProgress("memory", made.events, read.events, made, monotonic() - started))

    report(RebuildProgress("memory", 0, read.events))
    async with asyncio.TaskGroup() as group:
        for number in range(plan.workers):
            share = Share(
                spool=str(path),
                partitions=read.partitions,
                stages=plan.stages,
                ask_again=plan.ask_again,
                ask_refused=plan.ask_refused,
            )
            group.create_task(run_share(settings, share, partial(received, number), forks))
    return total(list(sums.values()))


def add(sum_: ProgressLine, line: ProgressLine) -> ProgressLine:
    """The total of one process after a further line; calls, tokens and cost are totals already."""
    return ProgressLine(
        **{
            name: getattr(line, name)
            if name in {"calls", "tokens", "cost"}
            else getattr(sum_, name) + getattr(line, name)
            for name in ProgressLine.model_fields
        }
    )


def total(sums: Sequence[ProgressLine]) -> ProgressLine:
    """The sum over all processes."""
    return ProgressLine(**{name: sum(getattr(one, name) for one in sums) for name in ProgressLine.model_fields})


# ---- handing over to the workers of the generation


async def _hand_over(settings: Settings, read: LogRead) -> None:
    """Write positions, promotions and group offsets, so that the workers continue after the derived records."""
    async with open_redis(settings) as redis:
        log_positions = RedisLogPositions(redis, store_keys(settings))
        for partition, found in read.promotions:
            if await log_positions.was_announced(partition, found.position, found.generation, found.nonce):
                await log_positions.promote(partition, found.position, found.generation)
        for partition, at, generation in read.answering:
            await log_positions.promote(partition, at, generation)
    kafka, names = settings.kafka_settings, settings.names
    derived = [topic for spec in STAGES.values() for topic in spec.inputs if topic != Topic.CONVERSATIONS]
    ends = await ends_of(kafka, names, list(dict.fromkeys(derived)), read.partitions)
    log_ends = {(Topic.CONVERSATIONS.value, partition): end for partition, end in read.ends.items()}
    for name, spec in STAGES.items():
        offsets = {place: offset for place, offset in {**ends, **log_ends}.items() if place[0] in spec.inputs}
        if offsets:
            await _store_positions(settings, spec, offsets)
            await commit_offsets(kafka, names, name, offsets)


async def _store_positions(settings: Settings, spec: StageSpec, offsets: Mapping[tuple[str, int], int]) -> None:
    """Record all before these offsets as handled."""
    if spec.order is ApplyOrder.REQUEST:
        return
    async with open_redis(settings) as redis:
        handled = RedisHandledPositions(redis, store_keys(settings))
        for (topic, partition), offset in offsets.items():
            if offset:
                reader = ReadPartition(spec.name, topic, partition)
                await handled.store(reader, "", position(settings.log_epoch, offset - 1), {})
