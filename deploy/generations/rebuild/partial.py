"""Partial rebuild: derives one stage and its dependents again and copies the rest from the live generation.

The live generation keeps running. The copy is made in this order, so that no record is lost: the handled offsets of the
log, then the state of each conversation, then the topics between the stages. The workers of the new generation
continue from these offsets.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from eunoe.deploy.clients.bootstrap import Clients, open_clients, open_qdrant
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.clients.erasures import read_erased
from eunoe.deploy.clients.shared import open_redis, state_store, store_keys
from eunoe.deploy.generations.rebuild.copying import CopyFile, copy_conversation
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.progress import ProgressLine, RebuildProgress, ReportRebuild
from eunoe.deploy.generations.rebuild.reading import LogRead
from eunoe.deploy.generations.rebuild.share import Landing
from eunoe.deploy.generations.rebuild.spool import Spool
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.progress import ReportCount
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Timer
from eunoe.schemas.position_ports import HandledPositions, LogPositions, ReadPartition
from eunoe.streams.position import split_position
from eunoe.streams.reader import partitions_of, read_all
from eunoe.streams.record import Record
from eunoe.streams.sealed.records import open_record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.dependents import made_again
from eunoe.workers.derive.pipeline import Deriver
from eunoe.workers.derive.resume import READ_TOPICS, Kept, earliest, kept_messages, resume
from eunoe.workers.intake.stage import NAME as INTAKE
from eunoe.workers.models.questions.metering import Prices
from eunoe.workers.registry import MEMORY_STAGES
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.state.transplants import RedisTransplants
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

AT_ONCE = 64
_BATCH = 2_000
_EVER = datetime.max.replace(tzinfo=UTC)
_ALL_TIMERS = 10_000_000


@dataclass(frozen=True, slots=True)
class Partial:
    """The result of a partial rebuild."""

    read: LogRead | None
    """The offsets from which the new generation's workers continue; `None` where a rebuild from the log is needed."""
    made: ProgressLine = field(default_factory=ProgressLine)
    note: str = ""


async def make_from(
    source: Settings, target: Settings, plan: RebuildPlan, work: Path, report: ReportRebuild
) -> Partial:
    """Derive ``plan.from_stage`` and its dependents again, copy the rest; ``work`` is a directory for files.

    Starts from an earlier stage where a topic that it needs is past its retention. Raises `Unavailable`.
    """
    assert plan.from_stage is not None
    if concerned := sum(not plan.conversations or key in plan.conversations for key in await read_erased(source)):
        # their events between the stages tell of what was erased
        return Partial(
            None, note=f"something was erased of {counted(concerned, 'conversation')}: derived again from the log"
        )
    with ExitStack() as closing:
        copies = CopyFile(work / "copies.sqlite")
        closing.callback(copies.close)
        read, timers = await _copy(source, plan, copies, report)
        spools = {topic: Spool(work / f"{topic}.sqlite") for topic in READ_TOPICS}
        for spool in spools.values():
            closing.callback(spool.close)
        for topic, spool in spools.items():
            await _fill(source, topic, spool, lambda done: report(RebuildProgress("topics", done, 0)))
        copied = _Copied(copies, spools, timers)
        missing = copied.missing()
        start = earliest(plan.from_stage, missing)
        note = _note(plan.from_stage, start, missing)
        if start == MEMORY_STAGES[0]:
            return Partial(None, note=note)
        made = await _make(target, plan, copied, made_again(start), read.partitions, report)
    return Partial(read, made, note)


def _note(wanted: str, start: str, missing: Mapping[Topic, int]) -> str:
    if start == wanted:
        return ""
    lacking = ", ".join(f"{topic} ({counted(count, 'conversation')})" for topic, count in sorted(missing.items()))
    where = "the log" if start == MEMORY_STAGES[0] else start
    return f"past their retention: {lacking}; derived again from {where} on instead of from {wanted}"


# ---- copying


async def _copy(
    source: Settings, plan: RebuildPlan, copies: CopyFile, report: ReportRebuild
) -> tuple[LogRead, dict[str, Timer]]:
    """Copy the handled offsets of the log, then every conversation, then the timers."""
    (partitions,) = await partitions_of(source.kafka_settings, source.names, [Topic.CONVERSATIONS])
    async with open_data_keys(source) as data_keys, open_redis(source) as redis, open_qdrant(source) as qdrant:
        keys = store_keys(source)
        store, log_positions = state_store(source, redis, keys, data_keys), RedisLogPositions(redis, keys)
        handled = RedisHandledPositions(redis, keys)
        transplants, index = RedisTransplants(store, redis, keys), QdrantIndex(qdrant, keys)
        read = await _handled(log_positions, handled, partitions, source.log_epoch)
        known = await store.conversations()
        wanted = [key for key in known if not plan.conversations or key in plan.conversations]
        again = made_again(plan.from_stage or MEMORY_STAGES[0])
        for done, key in enumerate(wanted):
            copies.add(key, await copy_conversation(store, transplants, index, key, again))
            report(RebuildProgress("copy", done + 1, len(wanted)))
        copies.finish()
        timers: dict[str, Timer] = {}
        for partition in range(partitions):
            timers |= {due.key: due.timer for due in await log_positions.due(partition, _EVER, _ALL_TIMERS)}
        return read, await _closed(log_positions, wanted) | timers


async def _closed(log_positions: RedisLogPositions, keys: Sequence[str]) -> dict[str, Timer]:
    """A timer without an utterance for each listed conversation: by it the copy is listed, and moved when idle."""
    found = {key: await log_positions.last_active(key) for key in keys}
    return {key: Timer(after_utterance_id=None, since=at) for key, at in found.items() if at is not None}


async def _handled(
    log_positions: LogPositions, handled_positions: HandledPositions, partitions: int, epoch: int
) -> LogRead:
    """For each partition: the offset after the last record that intake has handled, and the promotion in force."""
    read = LogRead(partitions)
    for partition in range(partitions):
        reader = ReadPartition(INTAKE, Topic.CONVERSATIONS, partition)
        handled = min(at.position for at in (await handled_positions.stored(reader)).values())
        at_epoch, offset = split_position(handled) if handled else (epoch, -1)
        read.ends[partition] = offset + 1 if at_epoch == epoch else 0
        promoted = await log_positions.answering(partition, handled or None)
        if promoted is not None and handled:
            read.answering.append((partition, handled, promoted))
    return read


async def _fill(source: Settings, topic: Topic, spool: Spool, report: ReportCount) -> None:
    batch: list[Record] = []
    done = 0
    spool.create()
    reading = read_all(source.kafka_settings, source.names, topic)
    async with open_data_keys(source) as data_keys, aclosing(reading) as records:
        async for stored in records:
            record = await open_record(stored, data_keys)
            if record is None:  # erased
                continue
            batch.append(record)
            done += 1
            if len(batch) >= _BATCH:
                spool.add(batch)
                batch.clear()
                report(done)
    spool.add(batch)
    spool.finish()


@dataclass(frozen=True, slots=True)
class _Copied:
    """Copied conversations, and the records between the stages."""

    copies: CopyFile
    spools: Mapping[Topic, Spool]
    timers: Mapping[str, Timer]

    def kept(self, key: str, again: Sequence[str]) -> Kept:
        kept = self.copies.read(key, self.timers.get(key))
        return kept.without(again)

    def records(self, key: str) -> list[Record]:
        return [record for spool in self.spools.values() for record in spool.records(key.encode())]

    def missing(self) -> Counter[Topic]:
        """Topic → number of conversations whose records in it are incomplete."""
        found = Counter[Topic]()
        for key in self.copies.conversations():
            found.update(kept_messages(self.copies.read(key), self.records(key)).missing)
        return found


# ---- deriving


async def _make(
    target: Settings, plan: RebuildPlan, copied: _Copied, again: Sequence[str], partitions: int, report: ReportRebuild
) -> ProgressLine:
    async with open_clients(target, ask_again=plan.ask_again, ask_refused=plan.ask_refused) as clients:
        outcomes = RecordedOutcomes(None if plan.ask_again else clients.answers)
        deriver = Deriver(clients.dependencies, target.runner, outcomes, MEMORY_STAGES)
        work = _PartialWork(copied, Landing(clients, partitions), deriver, again, target.prices, report)
        keys = copied.copies.conversations()
        waiting = asyncio.Queue[str]()
        for key in keys:
            waiting.put_nowait(key)
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work.take(waiting, len(keys)))
    return work.made(clients)


@dataclass(slots=True)
class _PartialWork:
    copied: _Copied
    landing: Landing
    deriver: Deriver
    again: Sequence[str]
    prices: Prices
    report: ReportRebuild
    sums: Counter[str] = field(default_factory=Counter)
    since: float = field(default_factory=monotonic)

    async def take(self, waiting: "asyncio.Queue[str]", total: int) -> None:
        while not waiting.empty():
            await self._one(waiting.get_nowait())
            made = self.made(self.landing.clients)
            self.report(RebuildProgress("memory", made.conversations, total, made, monotonic() - self.since))

    async def _one(self, key: str) -> None:
        kept = self.copied.kept(key, self.again)
        self.sums["conversations"] += 1
        there = await self.landing.is_there(key)
        if there.applied == kept.standing.ledgers["intake"].applied and there.applied:
            self.sums["kept"] += 1
            return
        between = kept_messages(kept, self.copied.records(key))
        derived = await resume(self.deriver, key, kept, between)
        await self.landing.put(derived, there)
        self.sums["events"] += sum(map(len, between.records.values()))
        self.sums["sessions"] += derived.sessions
        self.sums["memories"] += len(derived.standing.tables.get(("update", "memories"), {}))
        self.sums["failed"] += derived.failed

    def made(self, clients: Clients) -> ProgressLine:
        usage = clients.usage
        return ProgressLine(
            **self.sums,
            calls=usage.calls + usage.corrections + usage.retries,
            tokens=usage.prompt_tokens + usage.completion_tokens,
            cost=usage.cost(self.prices),
        )
