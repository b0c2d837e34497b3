"""Benchmark of a rebuild from the log with recorded answers, at growing sizes of the log."""

import asyncio
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import orjson
import psutil

from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.progress import ReportCount, ReportProgress
from eunoe.deploy.settings import Settings
from tests.bench.checks import WrongResult
from tests.bench.counters import cpu_seconds, rss_mb
from tests.bench.load import Event, LoadPlan, as_message, rounds
from tests.bench.report import Plot, Series
from tests.bench.rig import SAMPLE_S, Rig, RigPlan, open_rig

MARKS = (10_000, 50_000)
FIRST, AGAIN = "first", "again"
SHORT, LONG = 10, 100
"""Sessions of nine conversations of ten, and of the tenth."""


@dataclass(frozen=True, slots=True)
class RebuildBenchPlan:
    """The options of the benchmark."""

    marks: tuple[int, ...] = MARKS
    """Numbers of events in the log at which it is rebuilt."""
    workers: int = 2
    turns: int = 10
    seed: int = 1
    rig: RigPlan = field(default_factory=lambda: RigPlan(workers=(), delay_s=0.0))

    @property
    def group(self) -> tuple[LoadPlan, LoadPlan]:
        """Nine conversations of `SHORT` sessions and one of `LONG`."""
        short = LoadPlan(9, SHORT, self.turns, self.seed)
        return short, replace(short, conversations=1, sessions=LONG)

    @property
    def group_events(self) -> int:
        """The number of events of a group."""
        return sum(load.total_sessions for load in self.group) * (self.turns + 1)


@dataclass(slots=True)
class Spent:
    """Processor seconds and memory of the processes of a command."""

    cpu_s: dict[str, dict[int, float]] = field(default_factory=dict)
    """Role → process id → processor seconds, as last seen."""
    rss_mb: dict[str, float] = field(default_factory=dict)
    """Role → peak of its largest process."""

    def look(self, pid: int) -> None:
        """Read the counters of a process and of its children."""
        try:
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            role = "command" if process.pid == pid else "share"
            self.cpu_s.setdefault(role, {})[process.pid] = cpu_seconds(process.pid)
            self.rss_mb[role] = max(self.rss_mb.get(role, 0.0), rss_mb(process.pid))

    def cpu_of(self, role: str) -> float:
        """Processor seconds of all processes of a role."""
        return sum(self.cpu_s.get(role, {}).values())


async def bench_rebuild(
    plan: RebuildBenchPlan, settings: Settings, report: ReportProgress = lambda *_: None
) -> dict[str, Any]:
    """Mark → speed, processor time and memory; raises `WrongResult` where the memory differs or a model is asked.

    At each mark a first generation is made, which records the answers, and then another one, which is measured.
    """
    rows: dict[str, dict[str, float]] = {}
    async with open_rig(plan.rig, settings) as rig:
        groups = 0
        for mark in sorted(plan.marks):
            wanted = -(-mark // plan.group_events)
            await _produce(rig, plan, range(groups, wanted), _counted(report, mark))
            groups = wanted
            report(f"first at {mark}", 0, 1)
            await _rebuilt(rig, plan, FIRST)
            report(f"again at {mark}", 0, 1)
            rows[str(groups * plan.group_events)] = await _rebuilt(rig, plan, AGAIN)
            await _eunoe(rig, "diff", FIRST, AGAIN)
            for generation in (FIRST, AGAIN):
                await _eunoe(rig, "drop", generation, "--yes")
            report(f"again at {mark}", 1, 1)
    return {"rebuilt": rows, "checked": "digest for digest the same"}


def _counted(report: ReportProgress, mark: int) -> ReportCount:
    return lambda done: report("produced", done, mark)


def _sessions(plan: RebuildBenchPlan, number: int) -> Iterator[list[Event]]:
    for load in plan.group:
        yield from rounds(replace(load, name=f"rebuild-{number}-{load.sessions}"))


async def _produce(rig: Rig, plan: RebuildBenchPlan, groups: range, report: ReportCount) -> None:
    done = groups.start * plan.group_events
    async with open_publisher(rig.settings) as publisher:
        for number in groups:
            await publisher.publish([as_message(event) for session in _sessions(plan, number) for event in session])
            done += plan.group_events
            report(done)


async def _rebuilt(rig: Rig, plan: RebuildBenchPlan, into: str) -> dict[str, float]:
    before, servers, started = _children_cpu_s(), sum(rig.server_cpu_s().values()), monotonic()
    spent = Spent()
    done = await _eunoe(rig, "rebuild", "--into", into, "--workers", str(plan.workers), spent=spent)
    seconds, cpu = monotonic() - started, _children_cpu_s() - before
    if done["failed"] or (into == AGAIN and done["calls"]):
        raise WrongResult(f"{done['failed']} decisions failed, {done['calls']} calls were made")
    events = done["events"]
    return {
        "events": events,
        "sessions": done["sessions"],
        "events_per_s": round(events / seconds),
        "deriving_events_per_s": round(done["events_per_s"]),
        **{f"{name}_s": value for name, value in done["phases"].items()},
        "whole_s": round(seconds, 1),
        "cpu_ms_per_event": round(1000 * cpu / events, 3),
        "command_cpu_s": round(spent.cpu_of("command"), 1),
        "share_cpu_s": round(spent.cpu_of("share"), 1),
        "server_cpu_s": round(sum(rig.server_cpu_s().values()) - servers, 1),
        "command_rss_mb": round(spent.rss_mb.get("command", 0.0)),
        "share_rss_mb": round(spent.rss_mb.get("share", 0.0)),
    }


def _children_cpu_s() -> float:
    """Processor seconds of all ended child processes, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _eunoe(rig: Rig, *words: str, spent: Spent | None = None) -> dict[str, Any]:
    """The JSON that a command prints; raises `WrongResult` where it fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "eunoe.deploy.cli", *words, "--json"),
        cwd=rig.directory,
        env={**os.environ, **rig.variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(process.communicate())
    while not ended.done():
        if spent is not None:
            spent.look(process.pid)
        await asyncio.wait({ended}, timeout=SAMPLE_S)
    out, errors = ended.result()
    if process.returncode:
        raise WrongResult(
            f"eunoe {' '.join(words)} ended with {process.returncode}: {(errors or out).decode()[-2000:]}"
        )
    document: dict[str, Any] = orjson.loads(out)
    return document


def rebuild_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot of the speed over the events in the log."""
    rows = figures["rebuilt"]
    x = [float(events) for events in rows]
    names = ("events_per_s", "deriving_events_per_s")
    series = [Series(name.replace("_", " "), x, [row[name] for row in rows.values()]) for name in names]
    return Plot("A rebuild with recorded answers", "events in the log", "events/s", series)
