"""Benchmark of an idle `eunoe up`: processor time and memory of each process, and the first ask after a silence."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.observability.process_costs import ProcessSample, process_name, sample_tree
from eunoe.schemas.errors import Unavailable
from eunoe.streams.client import MemoryClient
from eunoe.streams.settings import KafkaSettings

START_S = 120.0


@dataclass(frozen=True, slots=True)
class IdlePlan:
    """The times of the measurement, in seconds."""

    settle_s: float = 25.0
    """Wait for idleness after the start, and before each ask."""
    measure_s: float = 60.0
    asks: int = 3
    """Asks after a silence, each by a plain Kafka client and followed by a second one at once."""


async def bench_idle(plan: IdlePlan, advance: Callable[[float], None]) -> dict[str, object]:
    """Costs of the processes over the measured time, and milliseconds of asks after a silence and right after these.

    ``advance`` is called with the share that is done.
    """
    total = plan.settle_s * (1 + plan.asks) + plan.measure_s
    with TemporaryDirectory(prefix="eunoe-idle-") as data:
        async with _up(Path(data)) as (pid, kafka):
            await asyncio.sleep(plan.settle_s)
            advance(plan.settle_s / total)
            costs = await _measured(pid, plan.measure_s)
            advance((plan.settle_s + plan.measure_s) / total)
            first, second = await _asks(kafka, plan)
    advance(1.0)
    return {
        "cpu_percent": round(sum(cost["cpu %"] for cost in costs.values()), 2),
        "pss_mb": round(sum(cost["PSS MB"] for cost in costs.values()), 1),
        "asks_after_silence_ms": first,
        "asks_right_after_ms": second,
        "processes": costs,
    }


@asynccontextmanager
async def _up(data: Path) -> AsyncIterator[tuple[int, str]]:
    """`eunoe up` over ``data``; gives its process id and the broker's address."""
    command = dies_with_parent((sys.executable, "-m", "eunoe.deploy.cli", "up", "--data", str(data), "--json"))
    up = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=dict(os.environ)
    )
    assert up.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            line = await up.stdout.readline()
        if not line:
            raise Unavailable("`eunoe up` ended at its start: run it by hand")
        yield up.pid, orjson.loads(line)["kafka"]
    finally:
        if up.returncode is None:
            up.send_signal(signal.SIGTERM)
        await up.wait()


async def _measured(pid: int, seconds: float) -> dict[str, dict[str, float]]:
    before = {one.pid: one.cpu_s for one in sample_tree(pid)}
    await asyncio.sleep(seconds)
    return costs_of(sample_tree(pid), before, seconds)


def costs_of(
    after: Sequence[ProcessSample], before: Mapping[int, float], seconds: float
) -> dict[str, dict[str, float]]:
    """Process → percent of a core over ``seconds`` and memory now; ``before``: its processor seconds by process id."""
    return {
        process_name(one.command): {
            "cpu %": round(100 * (one.cpu_s - before.get(one.pid, one.cpu_s)) / seconds, 2),
            "PSS MB": round(one.pss_mb, 1),
        }
        for one in after
    }


async def _asks(kafka: str, plan: IdlePlan) -> tuple[list[float], list[float]]:
    """Milliseconds of asks after a silence, and of those right after them; the first of all opens the connections."""
    first, second = [], []
    broker = KafkaSettings(bootstrap=kafka, idempotent=False)
    async with MemoryClient(broker, conversation_id="idle") as memory:
        await _timed(memory)
        for _ in range(plan.asks):
            await asyncio.sleep(plan.settle_s)
            first.append(await _timed(memory))
            second.append(await _timed(memory))
    return first, second


async def _timed(memory: MemoryClient) -> float:
    begun = time.perf_counter()
    await memory.ask("Where does Ann live?", speaker="Ben", record=False)
    return round(1000 * (time.perf_counter() - begun), 1)
