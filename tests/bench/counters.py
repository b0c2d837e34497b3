"""What servers and processes count, read before and after: the difference is what a run cost."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp
import psutil

from eunoe.deploy.settings import Settings
from eunoe.workers.stores.connection import RedisClient

_QDRANT = re.compile(r'^rest_responses_total\{method="([A-Z]+)",endpoint="([^"]*)",status="\d+"\} (\d+)', re.MULTILINE)


async def redis_commands(redis: RedisClient) -> Counter[str]:
    """Command → how often it ran since the server began; what scripts call inside counts too."""
    found: Mapping[str, Mapping[str, Any]] = await redis.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): int(entry["calls"]) for name, entry in found.items()})


async def qdrant_requests(settings: Settings) -> Counter[str]:
    """``METHOD endpoint`` → how many requests the server has answered, by its own metrics."""
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
    """What the benchmark's own model server counts."""
    async with aiohttp.ClientSession() as session, session.get(base_url.removesuffix("/v1") + "/stats") as answer:
        stats: dict[str, int] = await answer.json()
        return stats


def cpu_seconds(pid: int) -> float:
    """Processor seconds (user and system, all threads) of a process so far; 0 where it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def rss_mb(pid: int) -> float:
    """Resident memory of a process now, in MB; 0 where it is gone."""
    try:
        return float(psutil.Process(pid).memory_info().rss / 2**20)
    except psutil.NoSuchProcess:
        return 0.0
