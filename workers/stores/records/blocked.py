"""The conversations of a generation that are blocked, in Redis."""

from collections.abc import Mapping

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_scores
from eunoe.workers.stores.redis.keys import Keys

MAX_LISTED = 10_000
"""Conversations that one reading returns at most, the oldest first."""


class RedisBlocked:
    """One sorted set for each stage and reason, by time in seconds. Every method raises `Unavailable`."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._keys = keys

    async def read(self, stage: str, reason: str) -> Mapping[str, float]:
        """Conversation → time since which it is blocked."""
        found = await self._redis.command("ZRANGE", self._keys.blocked(stage, reason), 0, MAX_LISTED - 1, "WITHSCORES")
        return dict(as_scores(found))

    async def add(self, stage: str, reason: str, since: Mapping[str, float]) -> None:
        """Record conversations; an earlier time stays."""
        words = [word for key, at in since.items() for word in (f"{at:.3f}", key)]
        await self._redis.command("ZADD", self._keys.blocked(stage, reason), "NX", *words)

    async def remove(self, stage: str, reason: str, keys: set[str]) -> None:
        """Forget conversations."""
        await self._redis.command("ZREM", self._keys.blocked(stage, reason), *sorted(keys))
