"""Benchmark of sessions from Kafka through all stages until their last decision is durable."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from eunoe.deploy.clients.shared import open_publisher
from eunoe.deploy.progress import ReportProgress
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import SessionEnded
from eunoe.workers.derive.digest import hash_of_all
from eunoe.workers.runner.metrics import percentile
from tests.bench.checks import check_run, check_same, sequential_states
from tests.bench.counters import model_stats, qdrant_requests, redis_commands
from tests.bench.load import Event, LoadPlan, as_message, rounds
from tests.bench.rig import Rig, RigPlan, open_rig
from tests.bench.watch import Watch

BATCH = 20
"""Sessions produced in one batch."""


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The options of the benchmark."""

    load: LoadPlan = field(default_factory=LoadPlan)
    rig: RigPlan = field(default_factory=RigPlan)
    compare: bool = True
    """Whether to run the same events again one at a time and compare the digests."""


@dataclass(slots=True)
class CounterSnapshot:
    """The values of all counters at one time."""

    at: float
    worker_cpu_s: float
    server_cpu_s: Mapping[str, float]
    redis: Counter[str]
    qdrant: Counter[str]
    meters: list[dict[str, Any]]
    models: Mapping[str, int]


async def read_counters(rig: Rig) -> CounterSnapshot:
    """Read all counters, those of the workers as written after the call."""
    now = time.time()
    return CounterSnapshot(
        at=now,
        worker_cpu_s=rig.worker_cpu_s(),
        server_cpu_s=rig.server_cpu_s(),
        redis=await redis_commands(rig.redis),
        qdrant=await qdrant_requests(rig.settings),
        meters=[await worker.document_after(now) for worker in rig.workers],
        models=await model_stats(rig.base_url) if rig.own_model and rig.base_url else {},
    )


async def bench_pipeline(
    plan: PipelinePlan, settings: Settings, report: ReportProgress = lambda *_: None
) -> dict[str, Any]:
    """Run the benchmark; returns the figures. Raises `WrongResult` where the result is wrong."""
    async with open_rig(plan.rig, settings) as rig:
        await warm_up(rig)
        before = await read_counters(rig)
        watch = Watch(rig.redis, rig.names, plan.load.keys)
        ended = await play(rig, plan.load, watch, report)
        after = await read_counters(rig)
        states = await check_run(rig, plan.load)
        if plan.compare:
            report("checked", 0, 1)
            check_same(states, await sequential_states(rig, plan.load))
            report("checked", 1, 1)
        figures = figures_of(plan.load, CounterDelta(before, after), watch, ended)
        memory = {f"worker {place}": round(worker.rss_peak_mb, 1) for place, worker in enumerate(rig.workers)}
        digest = hash_of_all(state.digest for state in states)
        checked = "equal to a sequential run" if plan.compare else "not compared"
        return {**figures, "rss_mb_peak": memory, "digest": digest, "digest_checked": checked}


async def warm_up(rig: Rig) -> None:
    """Play two short conversations, so that connections, imports and first questions are not measured.

    They say other things than those that are measured: the answer to a question that was asked before is recorded.
    """
    load = LoadPlan(conversations=2, sessions=1, turns=4, seed=-1, name="warm-up")
    await play(rig, load, Watch(rig.redis, rig.names, load.keys), lambda *_: None)


async def play(
    rig: Rig, load: LoadPlan, watch: Watch, report: ReportProgress, first: int = 1
) -> dict[tuple[str, int], float]:
    """Produce all sessions and wait until the last is durable.

    Returns (conversation, session) → the time at which its end was produced, in seconds since the epoch.
    """
    last = first + load.sessions - 1
    total = load.conversations * last
    producing = asyncio.create_task(produce(rig, load, report, first))
    watching = asyncio.create_task(watch.until(last, lambda done: report("durable", done, total)))
    try:
        ended, _ = await asyncio.gather(producing, watching)
    finally:
        producing.cancel()
        watching.cancel()
    return ended


async def produce(rig: Rig, load: LoadPlan, report: ReportProgress, first: int = 1) -> dict[tuple[str, int], float]:
    """Produce all sessions of a load; returns the times as `play` does."""
    ended: dict[tuple[str, int], float] = {}
    batch: list[Event] = []
    counts: Counter[str] = Counter()
    async with open_publisher(rig.settings) as publisher:
        for number, events in enumerate(rounds(load, first), 1):
            batch += events
            if number % BATCH and number != load.total_sessions:
                continue
            await publisher.publish([as_message(event) for event in batch])
            for event in batch:
                if isinstance(event, SessionEnded):
                    counts[event.key] += 1
                    ended[event.key, first - 1 + counts[event.key]] = time.time()
            batch = []
            report("produced", number, load.total_sessions)
    return ended


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """The differences of the counters between two snapshots."""

    before: CounterSnapshot
    after: CounterSnapshot

    @property
    def redis(self) -> Counter[str]:
        """Redis commands by name."""
        return self.after.redis - self.before.redis

    @property
    def qdrant(self) -> Counter[str]:
        """Qdrant requests by route, without those for the counters."""
        requests = self.after.qdrant - self.before.qdrant
        return Counter({route: count for route, count in requests.items() if not route.endswith("/metrics")})

    @property
    def worker_cpu_s(self) -> float:
        """Processor seconds of the workers."""
        return self.after.worker_cpu_s - self.before.worker_cpu_s

    @property
    def server_cpu_s(self) -> dict[str, float]:
        """Processor seconds of the servers."""
        return {
            name: after - self.before.server_cpu_s.get(name, 0.0) for name, after in self.after.server_cpu_s.items()
        }

    def stages(self) -> dict[str, dict[str, float]]:
        """Stage → counter → sum over all processes."""
        summed: dict[str, Counter[str]] = {}
        for sign, reading in ((1, self.after), (-1, self.before)):
            for meter in reading.meters:
                for stage, counters in meter["stages"].items():
                    part = summed.setdefault(stage, Counter())
                    for name, value in counters.items():
                        part[name] += sign * value
        return {stage: {name: round(value, 3) for name, value in part.items()} for stage, part in summed.items()}

    def models(self, name: str) -> float:
        """A counter of the language model, summed over all processes."""
        return sum(
            sign * float(meter["models"].get(name, 0))
            for sign, reading in ((1, self.after), (-1, self.before))
            for meter in reading.meters
        )

    def loop(self, name: str) -> dict[str, int]:
        """A histogram of the event loops, summed over all processes."""
        counts: Counter[str] = Counter()
        for meter in self.after.meters:
            counts.update(meter["loop"][name])
        for meter in self.before.meters:
            counts.subtract(meter["loop"][name])
        return {bound: count for bound, count in counts.items() if count > 0}

    def longest_ms(self, name: str) -> float:
        """The maximum of a histogram since the workers started, in milliseconds."""
        return max(float(meter["loop"][name]) for meter in self.after.meters)


def figures_of(
    load: LoadPlan, spent: CounterDelta, watch: Watch, ended: Mapping[tuple[str, int], float]
) -> dict[str, Any]:
    """The figures of a run; times are wall clock from the first event until the last session is durable."""
    sessions = load.total_sessions
    durable = [watch.durable[place] for place in ended]
    seconds = max(durable) - spent.before.at
    latencies = [watch.durable[place] - at for place, at in ended.items()]
    commands = spent.redis
    commands["hget"] -= watch.commands
    return {
        "sessions": sessions,
        "seconds": round(seconds, 2),
        "sessions_per_s": round(sessions / seconds, 2),
        "utterances_per_s": round(sessions * load.turns / seconds, 1),
        "session_latency_s_p50": round(cut(latencies, 50), 2),
        "session_latency_s_p99": round(cut(latencies, 99), 2),
        **model_figures(spent, sessions, seconds),
        "cpu_s_per_session": round(spent.worker_cpu_s / sessions, 4),
        "server_cpu_s_per_session": {name: round(cpu / sessions, 4) for name, cpu in spent.server_cpu_s.items()},
        "redis_commands_per_session": round(commands.total() / sessions, 1),
        "redis_commands": {name: round(count / sessions, 2) for name, count in commands.most_common() if count},
        "qdrant_requests_per_session": round(spent.qdrant.total() / sessions, 2),
        "qdrant_requests": {name: round(count / sessions, 2) for name, count in spent.qdrant.most_common()},
        **loop_figures(spent),
        "stages": spent.stages(),
    }


def model_figures(spent: CounterDelta, sessions: int, seconds: float) -> dict[str, Any]:
    """Figures of the language model, correcting retries separate; zeros where the offline models decide."""
    peaks = [meter["models"].get("in_flight_peak", 0) for meter in spent.after.meters]
    return {
        "model_calls_per_session": round(spent.models("calls") / sessions, 3),
        "correcting_retries_per_session": round(spent.models("corrections") / sessions, 3),
        "invalid_answers_per_session": round(spent.models("invalid") / sessions, 3),
        "prompt_tokens_per_session": round(spent.models("prompt_tokens") / sessions, 1),
        "in_flight_peak": max(peaks, default=0),
        "in_flight_mean": round(spent.models("in_flight_s") / seconds, 2),
    }


def loop_figures(spent: CounterDelta) -> dict[str, float]:
    """Delays of the event loops, and the computing time between two waits."""
    return {
        "event_loop_lag_ms_p99": percentile(spent.loop("late_ms"), 0.99),
        "event_loop_lag_ms_longest": round(spent.longest_ms("late_longest_ms"), 1),
        "event_loop_busy_ms_p99": percentile(spent.loop("busy_ms"), 0.99),
        "event_loop_busy_ms_longest": round(spent.longest_ms("busy_longest_ms"), 1),
    }


def cut(values: list[float], percent: int) -> float:
    """A percentile, interpolated; the value itself where there is only one, 0 where there is none."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return quantiles(values, n=100, method="inclusive")[percent - 1]
