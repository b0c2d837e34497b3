"""Records that worker processes leave of themselves: lag, freshness, waits, and shares decided offline.

Each worker writes a small record every few seconds, and removes it when it stops. It holds counts and names of servers,
nothing of a conversation. A record that is not renewed shows a process that died or cannot reach Redis.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError

from eunoe.deploy.observability.counters import item_document
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.observability.rounds import Faults, repeat
from eunoe.schemas.base import Time, Value
from eunoe.schemas.errors import Unavailable
from eunoe.streams.cancelling import cancelled
from eunoe.workers.models.questions.buckets import Buckets
from eunoe.workers.models.questions.metering import ItemOutcome
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.blocked import BlockReason
from eunoe.workers.runner.metrics import Hop, StageMeter
from eunoe.workers.stores.records.processes import RedisProcesses

EVERY_S: Final = 5.0
"""Seconds between two records of a process."""
SILENT_S: Final = 30.0
"""Age of a record from which on its process counts as silent."""
FORGOTTEN: Final = timedelta(hours=1)
"""Age of a record at which the next process that starts removes it."""


class DurationBounds(Value):
    """Durations, by upper bounds of a histogram."""

    count: int
    half_s: float | None = None
    """Half of them took at most so many seconds; `None` where there are none, or they took longer than all bounds."""
    most_s: float | None = None
    """19 of 20 took at most so many seconds."""


class StageStatus(Value):
    """A stage in one process, counted since the process started."""

    lag: int
    """Unhandled records of the partitions of this process."""
    oldest_s: float
    """Age in seconds of the oldest record that is taken and not handled."""
    events: int
    """Records handled."""
    dead_letters: int
    answers: bool
    """Whether a client waits for what it decides."""
    took: DurationBounds
    """Of a stage that answers: from the arrival of an ask in the log to the commit. Of another: from the end of a
    session to the commit of what the stage makes of it."""
    parked: int = 0
    """Conversations of all processes that wait for an event."""
    held: int = 0
    """Conversations of all processes that are held until they are repaired."""
    items: int = 0
    """Items about which a model was asked: pairs, nodes, windows, replies."""
    items_offline: int = 0
    """Those that the offline rules decided, for want of a valid answer."""


class ProcessStatus(Value):
    """A worker process, as it described itself last."""

    name: str
    """Host and process id."""
    generation: str
    started: Time
    at: Time
    """The time of this record."""
    phase: str
    live: bool
    """Whether it makes progress where it has work."""
    ready: bool
    """Whether it runs and waits for no server."""
    why: tuple[str, ...] = ()
    """Reasons against it."""
    stages: dict[str, StageStatus]


async def read_processes(records: RedisProcesses) -> list[ProcessStatus]:
    """All processes by name, without records of another version. Raises `Unavailable`."""
    found = []
    for _, text in sorted((await records.read()).items()):
        with suppress(ValidationError):
            found.append(ProcessStatus.from_json(text))
    return found


@dataclass(frozen=True, slots=True)
class Announcer:
    """Writes the records of this process."""

    records: RedisProcesses
    sources: MetricSources
    generation: str
    name: str = field(default_factory=lambda: f"{socket.gethostname()}/{os.getpid()}")
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def announce(self) -> None:
        """Write a record. Raises `Unavailable`."""
        await self.records.write(self.name, self.status(datetime.now(UTC)).model_dump_json())

    async def clean(self) -> None:
        """Remove what processes left that died long ago. Raises `Unavailable`."""
        for one in await read_processes(self.records):
            if datetime.now(UTC) - one.at > FORGOTTEN:
                await self.records.remove(one.name)

    def status(self, now: datetime) -> ProcessStatus:
        """The record at a time."""
        report = self.sources.health.report()
        return ProcessStatus(
            name=self.name,
            generation=self.generation,
            started=self.started,
            at=now,
            phase=report.phase.value,
            live=report.live,
            ready=report.ready,
            why=report.why,
            stages={stage: self._stage(stage, meter) for stage, meter in self.sources.meter.stages.items()},
        )

    def _stage(self, stage: str, meter: StageMeter) -> StageStatus:
        health = self.sources.health
        items = item_document(self.sources.meter.language).get(stage, {})
        blocked = health.blocked[stage].counts() if stage in health.blocked else {}
        return StageStatus(
            lag=sum(health.progress(stage).lag().values()),
            oldest_s=self._oldest_s(stage),
            events=meter.events,
            dead_letters=sum(count for (of, _), count in health.letters.items() if of == stage),
            answers=STAGES[stage].answers,
            took=bounds_of(meter.asks[Hop.WHOLE] if STAGES[stage].answers else meter.freshness),
            parked=blocked.get(BlockReason.PARKED, (0, 0.0))[0],
            held=blocked.get(BlockReason.HELD, (0, 0.0))[0],
            items=sum(items.values()),
            items_offline=items.get(ItemOutcome.OFFLINE.value, 0),
        )

    def _oldest_s(self, stage: str) -> float:
        consumer = self.sources.meter.consumers.get(stage)
        oldest_ms = None if consumer is None else consumer.dispatcher.oldest_ms()
        now_ms = datetime.now(UTC).timestamp() * 1000
        return 0.0 if oldest_ms is None else round(max(0.0, (now_ms - oldest_ms) / 1000), 1)


def bounds_of(durations: Buckets) -> DurationBounds:
    """The count of durations, and the bounds below which half and nearly all of them are."""
    known = durations.cumulative()
    count = known[-1][1]

    def bound(share: float) -> float | None:
        first = next(text for text, below in known if below >= share * count)
        return None if first == "+Inf" else float(first)

    return DurationBounds(count=int(count), half_s=bound(0.5), most_s=bound(0.95)) if count else DurationBounds(count=0)


@asynccontextmanager
async def announced(announcer: Announcer) -> AsyncIterator[None]:
    """Write a record every `EVERY_S` seconds during the body, and remove it at the end."""
    task = asyncio.create_task(_run(announcer))
    try:
        yield
    finally:
        await cancelled(task)
        with suppress(Unavailable):
            await announcer.records.remove(announcer.name)


async def _run(announcer: Announcer) -> None:
    cleaned = False

    async def announce() -> None:
        nonlocal cleaned
        await announcer.announce()
        if not cleaned:
            await announcer.clean()
            cleaned = True

    await repeat(announce, EVERY_S, Faults("the record of this process"))
