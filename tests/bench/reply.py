"""Benchmark of replies without model time, over growing numbers of memories."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.models import open_compressor, open_embedder
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.streams.client import MemoryClient
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.stage import Dependencies
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.update.reads import read_memory_stats
from tests.bench.ask import HOPS, TimedAsk, hop_times
from tests.bench.checks import check_run
from tests.bench.load import LoadPlan, question
from tests.bench.pipeline import cut, play
from tests.bench.report import Plot, Series
from tests.bench.rig import Rig, RigPlan, open_rig
from tests.bench.watch import Watch

MARKS = (100, 1_000, 10_000)
SESSION_TURNS = 160
"""Utterances of a session; long ones, of which the offline summarizer makes 40 memories each."""
STUCK_S = 600.0
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class ReplyBenchOptions:
    """The options of the benchmark."""

    marks: tuple[int, ...] = MARKS
    """Numbers of memories of the conversation that is asked."""
    beside: int = 1_000
    """Number of other conversations."""
    asks: int = 100
    seed: int = 1
    variables: tuple[tuple[str, str], ...] = ()


async def bench_reply(
    plan: ReplyBenchOptions, settings: Settings, report: ReportProgress = lambda *_: None
) -> dict[str, Any]:
    """Number of memories → times in milliseconds: whole, by hop and by source.

    The offline models decide, so that everything but a language model is timed. Raises `WrongResult` where the memory
    is incomplete.
    """
    whole: dict[str, Any] = {}
    by_hop: dict[str, Any] = {}
    by_source: dict[str, Any] = {}
    load = LoadPlan(1, 0, SESSION_TURNS, plan.seed, name="asked")
    others = LoadPlan(plan.beside, 1, 10, plan.seed, name="beside")
    async with open_rig(RigPlan(delay_s=None, variables=plan.variables), settings) as rig:
        if plan.beside:
            await play(rig, others, Watch(rig.redis, rig.names, others.keys), _named(report, "beside"))
        watch = Watch(rig.redis, rig.names, load.keys)
        held = 0
        for mark in sorted(plan.marks):
            held = await _fill(rig, load, watch, held, mark, report)
            name = str(await _memories(rig, load))
            hops = await _ask(rig, load, plan.asks, _named(report, f"asks at {name}"))
            whole[name] = hops.pop(HOPS[-1])
            by_hop[name] = {hop: times["p50"] for hop, times in hops.items()}
            by_source[name] = await _sources(rig, load, plan.asks)
        await check_run(rig, replace(load, sessions=held))
    return {"whole_ms": whole, "hops_ms_p50": by_hop, "sources_ms_p50": by_source}


def _named(report: ReportProgress, name: str) -> ReportProgress:
    return lambda what, done, total: report(f"{name}: {what}", done, total)


async def _fill(rig: Rig, load: LoadPlan, watch: Watch, held: int, mark: int, report: ReportProgress) -> int:
    """Play sessions until the conversation has ``mark`` memories; returns the number of sessions."""
    while (known := await _memories(rig, load)) < mark:
        each = known / held if held else 40.0
        more = max(1, min(50, int((mark - known) / max(each, 1.0))))
        await play(rig, replace(load, sessions=more), watch, lambda *_: None, held + 1)
        held += more
        report(f"{mark} memories", min(await _memories(rig, load), mark), mark)
    return held


async def _memories(rig: Rig, load: LoadPlan) -> int:
    stats = await read_memory_stats(RedisStore(rig.redis, rig.names), load.keys[0])
    return stats.memories


async def _ask(rig: Rig, load: LoadPlan, asks: int, report: ReportProgress) -> dict[str, Any]:
    timed: dict[str, TimedAsk] = {}
    offset = time.time_ns()
    async with MemoryClient(
        rig.settings.kafka_settings, conversation_id=load.conversation_id(0), names=rig.settings.names
    ) as memory:
        for number in range(WARM_UP + asks):
            said = question(load, 0, offset + number)
            sent = time.time()
            reply = await memory.ask(said.text, speaker=said.speaker, record=False, timeout=120.0)
            if number >= WARM_UP:
                timed[reply.request_id] = TimedAsk(sent * 1000, time.time() * 1000)
                report("answered", len(timed), asks)
    return {name: _percentiles(values) for name, values in (await hop_times(rig.settings, timed)).items()}


async def _sources(rig: Rig, load: LoadPlan, asks: int) -> dict[str, float]:
    """Strategy → median milliseconds of retrieval, scoring and packing, in this process over the same stores."""
    async with AsyncExitStack() as closing:
        sources = recall_sources(await _dependencies(rig, closing))
        store = RedisStore(rig.redis, rig.names)
        stats = await read_stats(store, load.keys[0])
        budget = rig.settings.of(RespondSettings).budget_tokens
        found: dict[str, float] = {}
        for strategy, source in sources.items():
            times: list[float] = []
            for number in range(min(asks, 30)):
                text = question(load, 0, number).text
                started = time.perf_counter()
                await source.recall(Query(load.keys[0], text, stats.speakers, budget))
                times.append((time.perf_counter() - started) * 1000)
            found[strategy.value] = round(cut(times, 50), 1)
        return found


async def _dependencies(rig: Rig, closing: AsyncExitStack) -> Dependencies:
    client = await closing.enter_async_context(open_qdrant(rig.settings))
    return Dependencies(
        store=RedisStore(rig.redis, rig.names),
        index=QdrantIndex(client, rig.names),
        embedder=await open_embedder(rig.settings, os.environ, closing),
        compressor=await open_compressor(rig.settings, closing),
        language=None,
        settings=rig.settings.stages,
    )


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    return {f"p{percent}": round(cut(list(values), percent), 1) for percent in (50, 95, 99)}


def reply_plot(figures: Mapping[str, Any]) -> Plot:
    """A plot of percentiles over the number of memories."""
    whole = figures["whole_ms"]
    x = [float(memories) for memories in whole]
    series = [Series(name, x, [row[name] for row in whole.values()]) for name in ("p50", "p95", "p99")]
    return Plot("An ask from end to end, without a language model", "memories of the conversation", "ms", series)
