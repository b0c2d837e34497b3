"""Records that the processes of a deployment leave of themselves, in Redis."""

from collections.abc import Mapping

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_table
from eunoe.workers.stores.redis.keys import processes_key


class RedisProcesses:
    """One hash: name of a process → its last record. Every method raises `Unavailable`."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._key = processes_key(prefix)

    async def read(self) -> Mapping[str, str]:
        """All records."""
        return as_table(await self._redis.command("HGETALL", self._key))

    async def write(self, name: str, text: str) -> None:
        """Write the record of a process."""
        await self._redis.command("HSET", self._key, name, text)

    async def remove(self, name: str) -> None:
        """Remove the record of a process."""
        await self._redis.command("HDEL", self._key, name)
