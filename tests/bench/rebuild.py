"""Benchmark of a rebuild from the log with recorded answers, at growing sizes of the log."""

import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.progress import ReportCount, ReportProgress
from eunoe.deploy.settings import Settings
from tests.bench.checks import WrongResult
from tests.bench.eunoe_process import Spent, run_eunoe
from tests.bench.load import Event, LoadPlan, as_message, rounds
from tests.bench.report import Plot, Series
from tests.bench.rig import Rig, RigPlan, open_rig

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
            await run_eunoe(rig, "diff", FIRST, AGAIN)
            for generation in (FIRST, AGAIN):
                await run_eunoe(rig, "drop", generation, "--yes")
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
    done = await run_eunoe(rig, "rebuild", "--into", into, "--workers", str(plan.workers), spent=spent)
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


def rebuild_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot of the speed over the events in the log."""
    rows = figures["rebuilt"]
    x = [float(events) for events in rows]
    names = ("events_per_s", "deriving_events_per_s")
    series = [Series(name.replace("_", " "), x, [row[name] for row in rows.values()]) for name in names]
    return Plot("A rebuild with recorded answers", "events in the log", "events/s", series)
