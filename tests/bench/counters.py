"""Reads the counters of servers and processes; the difference before and after a run is its cost."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp
import psutil

from eunoe.deploy.settings import Settings
from eunoe.workers.stores.redis.connection import RedisClient

_QDRANT = re.compile(r'^rest_responses_total\{method="([A-Z]+)",endpoint="([^"]*)",status="\d+"\} (\d+)', re.MULTILINE)


async def redis_commands(redis: RedisClient) -> Counter[str]:
    """Command → number of runs since the server started, calls from scripts included."""
    found: Mapping[str, Mapping[str, Any]] = await redis.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): int(entry["calls"]) for name, entry in found.items()})


async def qdrant_requests(settings: Settings) -> Counter[str]:
    """``METHOD endpoint`` → number of requests answered, by the server's own metrics."""
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    async with (
        aiohttp.ClientSession(headers={"api-key": key} if key else None) as session,
        session.get(f"{settings.qdrant_url}/metrics") as answer,
    ):
        answer.raise_for_status()
        text = await answer.text()
    counts: Counter[str] = Counter()
    for method, endpoint, number in _QDRANT.findall(text):
        counts[f"{method} {endpoint}"] += int(number)
    return counts


async def model_stats(base_url: str) -> dict[str, int]:
    """The counters of the benchmark's model server."""
    async with aiohttp.ClientSession() as session, session.get(base_url.removesuffix("/v1") + "/stats") as answer:
        stats: dict[str, int] = await answer.json()
        return stats


def cpu_seconds(pid: int) -> float:
    """Processor seconds (user and system, all threads) of a process so far; 0 where it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def rss_mb(pid: int) -> float:
    """Resident memory of a process now, in MB; 0 where it has ended."""
    try:
        return float(psutil.Process(pid).memory_info().rss / 2**20)
    except psutil.NoSuchProcess:
        return 0.0
