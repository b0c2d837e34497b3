"""Benchmark of many conversations, half of them cold, and of a long one: bytes, memory, asks; then a rebuild of all."""

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from eunoe.deploy.generations.cold import cold_status, freeze_now, thaw_now
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import ColdSettings
from eunoe.streams.client import Connection, MemoryClient
from tests.bench.checks import WrongResult, check_run
from tests.bench.eunoe_process import Spent, run_eunoe
from tests.bench.load import LoadPlan, question
from tests.bench.memory import used_bytes
from tests.bench.pipeline import cut, play, warm_up
from tests.bench.report import Plot, Series
from tests.bench.rig import ALL, Rig, RigPlan, open_rig
from tests.bench.watch import Watch

LONG_MARKS = (10, 100, 1_000)
AT_ONCE = 200
"""Conversations under way at the same time."""
STEPS = 4
"""Measurements while each half of the conversations is played."""
FREEZES = 8
T = TypeVar("T")
_ANN = "Ann"
_MB = 1e6


@dataclass(frozen=True, slots=True)
class LifePlan:
    """The options of the benchmark."""

    load: LoadPlan = field(default_factory=lambda: LoadPlan(400, 10, name="life"))
    long_marks: tuple[int, ...] = LONG_MARKS
    """Sessions of the one long conversation at which it is measured."""
    asks: int = 50
    workers: int = 1

    @property
    def long(self) -> LoadPlan:
        """The long conversation."""
        return replace(self.load, conversations=1, sessions=max(self.long_marks), name=f"{self.load.name}-long")

    @property
    def events(self) -> int:
        """Utterances and ends of sessions of all conversations."""
        return (self.load.total_sessions + self.long.total_sessions) * (self.load.turns + 1)


async def bench_life(plan: LifePlan, settings: Settings, report: ReportProgress = lambda *_: None) -> dict[str, Any]:
    """Bytes by place, memory of the workers and times of asks; raises `WrongResult` where memory is not as it should.

    Half of the conversations go to the cold store once they are played, by `eunoe cold freeze`; then they are asked.
    """
    async with AsyncExitStack() as closing:
        folder = closing.enter_context(TemporaryDirectory(prefix="eunoe-cold-"))
        settings = settings.model_copy(update={"cold": ColdSettings(store=folder)})
        rig = await closing.enter_async_context(open_rig(RigPlan((ALL,) * plan.workers, None), settings))
        await warm_up(rig)
        blocks = life_blocks(plan.load)
        middle = (len(blocks) + 1) // 2
        cold, hot = blocks[:middle], blocks[middle:]
        bytes_: dict[str, dict[str, float]] = {}
        await _play_all(rig, cold, 0, bytes_, report)
        frozen_s = await _freeze(rig, cold, report)
        at = sum(block.conversations for block in cold)
        bytes_[f"{at}, all cold"] = await _sizes(rig)
        await _play_all(rig, hot, at, bytes_, report)
        asks = {
            "hot": await _ask(rig, hot, plan.asks),
            "cold, first ask": await _ask(rig, cold, plan.asks),
            "cold, second ask": await _ask(rig, cold, plan.asks),
        }
        long = await _long(rig, plan, report)
        report("checked", 0, 1)
        await check_run(rig, plan.long)
        rebuilt = await _rebuild(rig, plan)
        report("checked", 1, 1)
        found = {"conversations": bytes_, "ask_ms": asks, "long": long, **rebuilt}
        return {"conversations_frozen_per_s": round(at / frozen_s, 1), **found}


def _in_parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def life_blocks(load: LoadPlan) -> list[LoadPlan]:
    """The conversations in parts of at most `AT_ONCE`, an even number of parts."""
    size = max(1, min(AT_ONCE, -(-load.conversations // (2 * STEPS))))
    parts = [len(part) for part in _in_parts(range(load.conversations), size)]
    return [replace(load, conversations=part, name=f"{load.name}-{place}") for place, part in enumerate(parts)]


async def _play_all(
    rig: Rig, blocks: Sequence[LoadPlan], done: int, rows: dict[str, dict[str, float]], report: ReportProgress
) -> None:
    """Play all blocks; adds a row about every `STEPS`-th part of them, and after the last."""
    every = max(1, len(blocks) // STEPS)
    started, sessions = time.monotonic(), 0
    for place, block in enumerate(blocks, 1):
        await play(rig, block, Watch(rig.redis, rig.names, block.keys, poll_s=0.5), lambda *_: None)
        done += block.conversations
        sessions += block.total_sessions
        report("conversations", done, done + sum(one.conversations for one in blocks[place:]))
        if place % every == 0 or place == len(blocks):
            rate = round(sessions / (time.monotonic() - started), 1)
            rows[str(done)] = {**await _sizes(rig), "sessions_per_s": rate}
            started, sessions = time.monotonic(), 0


async def _sizes(rig: Rig) -> dict[str, float]:
    """Megabytes by place; of Redis the data set alone, of the workers the peak of the largest."""
    cold = await cold_status(rig.settings)
    return {
        "redis_mb": round(await used_bytes(rig.redis) / _MB, 1),
        "qdrant_mb": round(_on_disk(rig.data / "qdrant") / _MB, 1) if rig.data else 0.0,
        "cold_mb": round(cold.snapshot_bytes / _MB, 1),
        "cold_conversations": cold.cold,
        "worker_peak_mb": round(max(worker.rss_peak_mb for worker in rig.workers), 1),
    }


def _on_disk(folder: Path) -> int:
    """Bytes that the files of a folder take on disk; files may come and go meanwhile."""
    blocks = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                blocks += (Path(directory) / name).stat().st_blocks
            except FileNotFoundError:
                continue
    return 512 * blocks


async def _freeze(rig: Rig, blocks: Sequence[LoadPlan], report: ReportProgress) -> float:
    """Move all conversations to the cold store; returns the seconds."""
    keys = [key for block in blocks for key in block.keys]
    started = time.monotonic()
    for done, some in enumerate(_in_parts(keys, FREEZES), 1):
        await asyncio.gather(*(freeze_now(rig.settings, key, rig.settings.partitions) for key in some))
        report("frozen", min(done * FREEZES, len(keys)), len(keys))
    return time.monotonic() - started


async def _ask(rig: Rig, blocks: Sequence[LoadPlan], asks: int) -> dict[str, float]:
    """Percentiles of whole asks in milliseconds, each to another conversation as far as there are any."""
    places = [(block, number) for block in blocks for number in range(block.conversations)]
    return await _timed(rig, [places[number % len(places)] for number in range(asks)])


async def _timed(rig: Rig, places: Sequence[tuple[LoadPlan, int]]) -> dict[str, float]:
    times: list[float] = []
    numbers = count(time.time_ns())
    async with Connection(rig.settings.kafka_settings, rig.settings.names) as connection:
        for block, number in places:
            memory = MemoryClient(connection, conversation_id=block.conversation_id(number))
            text = question(block, number, next(numbers)).text
            started = time.perf_counter()
            reply = await memory.ask(text, speaker=_ANN, record=False, timeout=120.0)
            times.append((time.perf_counter() - started) * 1000)
            if reply.error is not None:
                raise WrongResult(f"an ask got an error: {reply.error}")
    return {f"p{percent}": round(cut(times, percent), 1) for percent in (50, 95, 99)}


async def _long(rig: Rig, plan: LifePlan, report: ReportProgress) -> dict[str, dict[str, float]]:
    """Sessions held → the cost of a session since the mark before, bytes, asks, and the way to the cold store."""
    load, held, rows = plan.long, 0, {}
    watch = Watch(rig.redis, rig.names, load.keys)
    for mark in sorted(plan.long_marks):
        before, cpu, started = await used_bytes(rig.redis), rig.worker_cpu_s(), time.monotonic()
        advance = _advance(report, load.sessions)
        await play(rig, replace(load, sessions=mark - held), watch, advance, held + 1)
        sessions, held = mark - held, mark
        seconds, spent = time.monotonic() - started, rig.worker_cpu_s() - cpu
        grown = await used_bytes(rig.redis) - before
        asked = await _timed(rig, [(load, 0)] * plan.asks)
        rows[str(mark)] = {
            "sessions_per_s": round(sessions / seconds, 1),
            "cpu_ms_per_session": round(1000 * spent / sessions, 1),
            "redis_kb_per_session": round(grown / sessions / 1000, 1),
            **{f"ask_{name}_ms": value for name, value in asked.items()},
            **await _there_and_back(rig, load),
            "worker_peak_mb": round(max(worker.rss_peak_mb for worker in rig.workers), 1),
        }
    return rows


def _advance(report: ReportProgress, total: int) -> ReportProgress:
    return lambda what, done, _total: report(f"long: {what}", done, total)


async def _there_and_back(rig: Rig, load: LoadPlan) -> dict[str, float]:
    """Milliseconds of freezing the long conversation and of bringing it back."""
    (key,) = load.keys
    started = time.perf_counter()
    await freeze_now(rig.settings, key, rig.settings.partitions)
    frozen = time.perf_counter()
    await thaw_now(rig.settings, key)
    return {
        "freeze_ms": round((frozen - started) * 1000, 1),
        "thaw_ms": round((time.perf_counter() - frozen) * 1000, 1),
    }


async def _rebuild(rig: Rig, plan: LifePlan) -> dict[str, Any]:
    """Rebuild all with two processes, and compare; raises `WrongResult` where the memory differs."""
    started = time.monotonic()
    spent = Spent()
    await run_eunoe(rig, "rebuild", "--into", "v2", "--workers", "2", spent=spent)
    seconds = time.monotonic() - started
    await run_eunoe(rig, "diff", rig.settings.names.generation, "v2")
    return {
        "rebuild_s": round(seconds, 1),
        "rebuild_events_per_s": round(plan.events / seconds),
        "rebuild_peak_mb": round(spent.rss_mb["share"], 1),
        "rebuilt": "digest for digest the same",
    }


def life_plots(figures: Mapping[str, Any]) -> list[Plot]:
    """Plots of the bytes by place, of a worker's memory beside many conversations and beside the long one, of the asks
    of the long one and of its way to the cold store and back.
    """
    rows = {int(name): row for name, row in figures["conversations"].items() if name.isdecimal()}
    long = {int(name): row for name, row in figures["long"].items()}
    return [
        _plot("Where the bytes are", "conversations", "MB", rows, ("redis_mb", "qdrant_mb", "cold_mb")),
        _plot("Memory of a worker", "conversations", "MB", rows, ("worker_peak_mb",)),
        _plot("Memory of a worker, one conversation", "sessions held", "MB", long, ("worker_peak_mb",)),
        _plot("Asks of one conversation", "sessions held", "ms", long, ("ask_p50_ms", "ask_p95_ms", "ask_p99_ms")),
        _plot("To the cold store and back", "sessions held", "ms", long, ("freeze_ms", "thaw_ms")),
    ]


def _plot(title: str, x: str, y: str, rows: Mapping[int, Mapping[str, float]], names: Sequence[str]) -> Plot:
    series = [Series(name, [float(at) for at in rows], [row[name] for row in rows.values()]) for name in names]
    return Plot(title, x, y, series)
