"""Asks Redis whether it keeps what it acknowledges; without that nothing is promised."""

import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from eunoe.workers.stores.connection import RedisClient, RedisConnection, as_text

log = logging.getLogger(__name__)

ADVICE: Final = "see deploy/docs/guarantees.md"
_ASKED: Final = ("appendonly", "appendfsync", "maxmemory-policy", "maxmemory")


def broken_promises(config: Mapping[str, str]) -> list[str]:
    """What of Redis' settings stands against "nothing is lost", in words; unknown settings are passed over."""
    told = []
    if config.get("appendonly") == "no":
        told.append("appendonly is no: a restart of Redis loses what was acknowledged since its last snapshot")
    elif config.get("appendfsync") == "no":
        told.append("appendfsync is no: a power failure loses what the system had not written yet, half a minute or so")
    policy = config.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        told.append(f"maxmemory-policy is {policy}: Redis may throw away state when its memory is full; use noeviction")
    return told


async def warn_of_promises(client: RedisClient) -> None:
    """Say once, in the log, what of Redis' settings breaks a promise; silent where asking is not allowed.

    Raises `Unavailable`.
    """
    redis = RedisConnection(client)
    try:
        with redis.watched():
            told = await _settings_of(client, redis.host)
    except RedisError as fault:  # managed Redis often forbids CONFIG
        log.debug("Redis at %s does not tell its settings: %s", redis.host, fault)
        return
    for host, config in sorted(told.items()):
        for promise in broken_promises(_texts(config)):
            log.warning("Redis at %s: %s (%s)", host, promise, ADVICE)


async def _settings_of(client: RedisClient, host: str) -> Mapping[str, object]:
    """What each server says: of a cluster every primary, by its address."""
    if isinstance(client, RedisCluster):
        # redis-py's types know nothing of several answers
        told: Any = await client.config_get(*_ASKED, target_nodes=RedisCluster.PRIMARIES)
        return cast("Mapping[str, object]", told)
    return {host: await client.config_get(*_ASKED)}


def _texts(told: object) -> dict[str, str]:
    if isinstance(told, Mapping):
        return {as_text(name): as_text(value) for name, value in told.items()}
    words = [as_text(word) for word in told] if isinstance(told, list | tuple) else []
    return dict(zip(words[::2], words[1::2], strict=False))
