"""The number of partitions with which a generation reads its log: it must never change under it."""

from typing import Final

from eunoe.schemas.errors import Refused
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection
from eunoe.workers.stores.redis.keys import Keys

ADVICE: Final = "deploy/docs/rebuild.md, Partitions that were added by hand"


class RedisPartitionRecord:
    """One hash: number and epoch of a log → its partitions when the generation began to read it."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._redis = RedisConnection(client)
        self._key = keys.log_partitions()

    async def check(self, log: int, epoch: int, found: int) -> None:
        """Keep the number at the first call; raises `Refused` for another one later, and `Unavailable`.

        A conversation whose partition changes begins at a low offset there: what is said in it would pass for handled.
        """
        field = f"{log}/{epoch}"
        await self._redis.command("HSETNX", self._key, field, found)
        kept = int(await self._redis.command("HGET", self._key, field))
        if kept != found:
            raise Refused(
                f"the log has {found} partitions, and this generation has read it with {kept}: what is said in"
                " conversations that moved to another partition would pass for handled. Nothing is handled until that"
                f" is mended; what is in the log stays there ({ADVICE})"
            )
