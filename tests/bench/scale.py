"""Benchmark of the same load on more processes, a rebalance under load, and asks during a bulk import."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.streams.client import MemoryClient
from eunoe.workers.registry import GROUPS, STAGES
from tests.bench.checks import check_run
from tests.bench.load import LoadPlan, question
from tests.bench.pipeline import cut, play, produce, warm_up
from tests.bench.report import Plot, Series
from tests.bench.rig import Rig, RigPlan, open_rig
from tests.bench.watch import Watch

MODEL_BOUND = ("segment", "summarize", "update", "link", "tree")
"""The stages that wait for a model, and scale by processes."""
OTHERS = tuple(name for name in STAGES if name not in MODEL_BOUND)


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The options of the benchmark."""

    processes: tuple[int, ...] = (1, 2, 4, 8)
    load: LoadPlan = field(default_factory=lambda: LoadPlan(conversations=48, sessions=3, turns=6))
    delay_s: float = 2.0
    """Delay of each model answer in seconds; long enough that the model, not the machine, is the limit."""
    in_flight: int = 24
    """Maximum concurrent model calls of a process, 20 of them reserved for replies."""
    rebalance: bool = True
    bulk_sessions: int = 10_000
    """Sessions of a bulk import that wait during the asks; 0 leaves this part out."""
    asks: int = 20


async def bench_scale(plan: ScalePlan, settings: Settings, report: ReportProgress = lambda *_: None) -> dict[str, Any]:
    """Throughput by processes, the cost of a rebalance, fairness; raises `WrongResult` where a result is wrong."""
    figures: dict[str, Any] = {"throughput": {}}
    for count in plan.processes:
        figures["throughput"][str(count)] = await _throughput(plan, count, settings, report)
    if plan.rebalance:
        figures["rebalance"] = await _rebalance(plan, settings, report)
    if plan.bulk_sessions:
        figures["fairness"] = await _fairness(plan, settings, report)
    return figures


def _rig(plan: ScalePlan, processes: int) -> RigPlan:
    variables = (("EUNOE_MODEL_IN_FLIGHT", str(plan.in_flight)),)
    return RigPlan((OTHERS, *(MODEL_BOUND,) * processes), plan.delay_s, variables=variables)


async def _throughput(plan: ScalePlan, processes: int, settings: Settings, report: ReportProgress) -> dict[str, float]:
    load = plan.load
    async with open_rig(_rig(plan, processes), settings) as rig:
        await warm_up(rig)
        watch = Watch(rig.redis, rig.names, load.keys)
        started = time.time()
        await play(rig, load, watch, lambda what, done, all_: report(f"{processes}: {what}", done, all_))
        seconds = max(watch.durable.values()) - started
        await check_run(rig, load)
    rate = load.total_sessions / seconds
    return {"sessions_per_s": round(rate, 3), "per_process": round(rate / processes, 3), "seconds": round(seconds, 1)}


async def _rebalance(plan: ScalePlan, settings: Settings, report: ReportProgress) -> dict[str, float]:
    """Add a second process in the middle of the load; returns the longest gaps between sessions, in seconds."""
    load = replace(plan.load, sessions=plan.load.sessions * 2)
    async with open_rig(_rig(plan, 1), settings) as rig:
        await warm_up(rig)
        watch = Watch(rig.redis, rig.names, load.keys)
        playing = asyncio.create_task(
            play(rig, load, watch, lambda what, done, all_: report(f"re: {what}", done, all_))
        )
        while len(watch.durable) < load.total_sessions // 3 and not playing.done():  # noqa: ASYNC110 - the watch polls too
            await asyncio.sleep(0.1)
        joined = time.time()
        await rig.add_worker(MODEL_BOUND)
        ready = time.time()
        await playing
        await check_run(rig, load)
    return {**_gaps(watch, joined), "seconds_until_ready": round(ready - joined, 1)}


def _gaps(watch: Watch, joined: float) -> dict[str, float]:
    """Gaps between sessions of a conversation, those across ``joined`` apart from the others, in seconds."""
    times: dict[str, list[float]] = {}
    for (key, _), at in sorted(watch.durable.items()):
        times.setdefault(key, []).append(at)
    pairs = [(before, after) for row in times.values() for before, after in pairwise(row)]
    over = [after - before for before, after in pairs if before <= joined <= after]
    others = [after - before for before, after in pairs if not before <= joined <= after]
    return {
        "longest_gap_s": round(max(over, default=0.0), 2),
        "longest_gap_otherwise_s": round(max(others, default=0.0), 2),
        "median_gap_otherwise_s": round(cut(others, 50), 2),
    }


async def _fairness(plan: ScalePlan, settings: Settings, report: ReportProgress) -> dict[str, Any]:
    """Measure asks of an idle system, and the same while a bulk import of other conversations waits for models.

    The first ask after the import was produced is behind all of it in the log, and is reported separately.
    """
    asked = LoadPlan(conversations=4, sessions=2, turns=6, name="asked")
    bulk = LoadPlan(conversations=max(1, plan.bulk_sessions // 20), sessions=20, turns=4, name="bulk")
    groups = (GROUPS["replies"], GROUPS["memory"])
    async with open_rig(RigPlan(groups, delay_s=min(plan.delay_s, 0.2)), settings) as rig:
        await play(rig, asked, Watch(rig.redis, rig.names, asked.keys), lambda *_: None)
        idle = await ask_all(rig, asked, range(plan.asks), lambda done: report("asks, idle", done, plan.asks))
        await produce(rig, bulk, lambda what, done, all_: report(f"bulk {what}", done, all_))
        (behind,) = await ask_all(rig, asked, [plan.asks])
        numbers = range(plan.asks + 1, 2 * plan.asks + 1)
        busy = await ask_all(rig, asked, numbers, lambda done: report("asks, bulk", done, plan.asks))
        waiting = await _left(rig, bulk)
    ratio = cut(busy, 95) / cut(idle, 95)
    times = {"idle": _times(idle), "beside_bulk": _times(busy)}
    return {
        **times,
        "p95_ratio": round(ratio, 2),
        "first_ask_behind_the_bulk_s": round(behind, 2),
        "bulk_sessions_left_at_the_end": waiting,
    }


async def ask_all(rig: Rig, load: LoadPlan, numbers: Iterable[int], done: Any = lambda _number: None) -> list[float]:
    """Seconds of each ask, one after the other, over the conversations in turn."""
    seconds: list[float] = []
    for number in numbers:
        said = question(load, number % load.conversations, number)
        async with MemoryClient(
            rig.settings.kafka_settings, conversation_id=said.conversation_id, names=rig.settings.names
        ) as memory:
            started = time.perf_counter()
            await memory.ask(said.text, speaker=said.speaker, record=False, timeout=600.0)
            seconds.append(time.perf_counter() - started)
        done(len(seconds))
    return seconds


async def _left(rig: Rig, bulk: LoadPlan) -> int:
    """The number of sessions of the import that are not durable yet."""
    watch = Watch(rig.redis, rig.names, bulk.keys)
    await watch.look()
    return bulk.total_sessions - len(watch.durable)


def _times(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}_ms": round(cut(list(seconds), percent) * 1000, 1) for percent in (50, 95)}


def scale_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot of throughput over processes."""
    rows = figures["throughput"]
    x = [float(count) for count in rows]
    rates = Series("sessions/s", x, [row["sessions_per_s"] for row in rows.values()])
    each = Series("per process", x, [row["per_process"] for row in rows.values()])
    return Plot("The same load on more processes", "processes of the model-bound stages", "sessions/s", [rates, each])
