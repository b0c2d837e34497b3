"""Checks whether Redis keeps what it acknowledges; the delivery guarantees rest on that."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.observability.health import HealthState
from eunoe.schemas.errors import Misconfigured
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_text, of_primaries

log = logging.getLogger(__name__)

ADVICE: Final = "see deploy/docs/guarantees.md"
_ASKED: Final = ("appendonly", "appendfsync", "maxmemory-policy", "maxmemory")


def durability_faults(config: Mapping[str, str]) -> list[str]:
    """The settings of a Redis server with which acknowledged writes may be lost, in words; unknown ones are skipped."""
    faults = []
    if config.get("appendonly") == "no":
        faults.append("appendonly is no: a restart of Redis loses what was acknowledged since its last snapshot")
    elif config.get("appendfsync") == "no":
        faults.append("appendfsync is no: a power failure loses what the system had not flushed, about half a minute")
    policy = config.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        faults.append(f"maxmemory-policy is {policy}: Redis may evict state when its memory is full; use noeviction")
    return faults


async def warn_of_weak_durability(client: RedisClient) -> None:
    """Log each setting of Redis with which acknowledged writes may be lost; silent where CONFIG is forbidden.

    Raises `Unavailable`.
    """
    redis = RedisConnection(client)
    try:
        with redis.translating_faults():
            configs = await settings_by_server(client, redis.host)
    except (RedisError, Misconfigured) as fault:  # managed Redis often forbids CONFIG
        log.debug("Redis at %s does not show its settings: %s", redis.host, fault)
        return
    for host, config in sorted(configs.items()):
        for durability_fault in durability_faults(config):
            log.warning("Redis at %s: %s (%s)", host, durability_fault, ADVICE)


async def settings_by_server(client: RedisClient, host: str) -> dict[str, dict[str, str]]:
    """The settings by server: of a cluster those of every primary, by its address."""
    if isinstance(client, RedisCluster):
        answers = await of_primaries(client, client.config_get, *_ASKED)
        return {node: _texts(config) for node, config in answers.items()}
    return {host: _texts(await client.config_get(*_ASKED))}


def _texts(answer: object) -> dict[str, str]:
    if isinstance(answer, Mapping):
        return {as_text(name): as_text(value) for name, value in answer.items()}
    words = [as_text(word) for word in answer] if isinstance(answer, list | tuple) else []
    return dict(zip(words[::2], words[1::2], strict=False))


class EvictionWatch:
    """Looks for keys that Redis has evicted: no stage misses a table of a conversation that is idle."""

    def __init__(self, client: RedisClient, health: HealthState) -> None:
        self._client = client
        self._redis = RedisConnection(client)
        self._health = health

    async def look(self) -> None:
        """Keep the count of each server for the metrics, and log one that has grown; silent where INFO is forbidden.

        Raises `Unavailable`.
        """
        try:
            with self._redis.translating_faults():
                counts = await evicted_by_server(self._client, self._redis.host)
        except (RedisError, Misconfigured) as fault:
            log.debug("Redis at %s does not tell what it evicts: %s", self._redis.host, fault)
            return
        for server, count in sorted(counts.items()):
            if count > self._health.evicted.get(server, 0):
                log.error("REDIS EVICTS STATE: %s: %s", server, evicted(count))
        self._health.evicted = counts


def evicted(count: int) -> str:
    """The words for keys that a server has evicted since its start, and for what to do."""
    return (
        f"it has evicted {counted(count, 'key')} since its start, for want of memory: what conversations know may be"
        " gone, and no stage notices that. Give it memory, set maxmemory-policy noeviction, then derive all of it again"
        " (deploy/docs/runbook.md, EunoeRedisEvicts)"
    )


async def evicted_by_server(client: RedisClient, host: str) -> dict[str, int]:
    """Keys evicted since the start of each server: of a cluster those of every primary, by its address."""
    if isinstance(client, RedisCluster):
        answers = await of_primaries(client, client.info, "stats")
        return {node: _evicted(about) for node, about in answers.items()}
    return {host: _evicted(await client.info("stats"))}


def _evicted(about: Mapping[Any, object]) -> int:
    counts = {as_text(name): value for name, value in about.items()}
    found = counts.get("evicted_keys")
    return found if isinstance(found, int) else 0
