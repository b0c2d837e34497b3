"""Benchmark of the cost of one more session in a conversation that already holds many."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from tests.bench.checks import check_run
from tests.bench.load import LoadPlan
from tests.bench.pipeline import CounterDelta, model_figures, play, read_counters, warm_up
from tests.bench.report import Plot, Series
from tests.bench.rig import Rig, RigPlan, open_rig
from tests.bench.watch import Watch

MARKS = (10, 100, 1_000, 10_000)


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """The options of the benchmark: one conversation that grows."""

    marks: tuple[int, ...] = MARKS
    """Numbers of sessions after which one more is measured."""
    probe: int = 10
    """Sessions measured at each mark, one at a time."""
    turns: int = 10
    seed: int = 1
    rig: RigPlan = field(default_factory=lambda: RigPlan(delay_s=0.0))


async def bench_growth(
    plan: GrowthPlan, settings: Settings, report: ReportProgress = lambda *_: None
) -> dict[str, Any]:
    """Mark → the cost of a session there, by stage; raises `WrongResult` where the result is wrong."""
    load = LoadPlan(1, 0, plan.turns, plan.seed, name="growing")
    rows: dict[str, Any] = {}
    async with open_rig(plan.rig, settings) as rig:
        await warm_up(rig)
        watch = Watch(rig.redis, rig.names, load.keys)
        held = 0
        for mark in sorted(plan.marks):
            held = await _grow(rig, load, watch, held, mark, report)
            rows[str(mark)] = await _probe(rig, replace(load, sessions=1), watch, held, plan.probe)
            held += plan.probe
        await check_run(rig, load)
    return {"cost_of_a_session": {mark: _row(found) for mark, found in rows.items()}, "by_stage": _stage_rows(rows)}


async def _grow(rig: Rig, load: LoadPlan, watch: Watch, held: int, mark: int, report: ReportProgress) -> int:
    """Play sessions until the conversation holds ``mark``; returns the number that it holds."""
    if mark > held:
        await play(rig, replace(load, sessions=mark - held), watch, report, held + 1)
    return max(mark, held)


async def _probe(rig: Rig, load: LoadPlan, watch: Watch, held: int, probe: int) -> dict[str, Any]:
    """The cost of ``probe`` further sessions, played one at a time so that none waits for another."""
    before, asked = await read_counters(rig), watch.commands
    started = time.time()
    for session in range(held + 1, held + probe + 1):
        await play(rig, load, watch, lambda *_: None, session)
    return {
        "seconds": time.time() - started,
        "sessions": probe,
        "spent": CounterDelta(before, await read_counters(rig)),
        "watched": watch.commands - asked,
    }


def _row(found: Mapping[str, Any]) -> dict[str, float]:
    spent, sessions = _spent(found), found["sessions"]
    models = model_figures(spent, sessions, found["seconds"])
    return {
        "worker_busy_ms": round(sum(_busy(part) for part in spent.stages().values()) / sessions * 1000, 1),
        "cpu_ms": round(spent.worker_cpu_s / sessions * 1000, 1),
        "redis_commands": round((spent.redis.total() - found["watched"]) / sessions, 1),
        "qdrant_requests": round(spent.qdrant.total() / sessions, 2),
        "model_calls": models["model_calls_per_session"],
        "prompt_tokens": models["prompt_tokens_per_session"],
    }


def _stage_rows(rows: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Stage → mark → milliseconds of deciding and applying one session."""
    found: dict[str, dict[str, float]] = {}
    for mark, row in rows.items():
        for stage, part in _spent(row).stages().items():
            if part["events"]:
                found.setdefault(stage, {})[mark] = round(_busy(part) / row["sessions"] * 1000, 1)
    return found


def _spent(found: Mapping[str, Any]) -> CounterDelta:
    spent = found["spent"]
    assert isinstance(spent, CounterDelta)
    return spent


def _busy(part: Mapping[str, float]) -> float:
    return part["deciding_s"] + part["applying_s"]


def growth_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot with a line for each stage over the number of sessions held."""
    series: Sequence[Series] = [
        Series(stage, [float(mark) for mark in row], list(row.values())) for stage, row in figures["by_stage"].items()
    ]
    return Plot("What one more session costs", "sessions held", "ms of deciding and applying", series)
