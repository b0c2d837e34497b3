"""The skips of a generation in Redis."""

from collections.abc import Mapping

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_table
from eunoe.workers.stores.redis.keys import Keys


class RedisSkips:
    """One hash: name of a record → reason to pass over it. Every method raises `Unavailable`."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._key = keys.skips()

    async def read(self) -> Mapping[str, str]:
        """All skips."""
        return as_table(await self._redis.command("HGETALL", self._key))

    async def add(self, name: str, reason: str) -> None:
        """Pass over a record from now on."""
        await self._redis.command("HSET", self._key, name, reason)
