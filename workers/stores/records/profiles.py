"""Profiles of model endpoints in Redis: what one process has learned, all others know."""

from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.redis.keys import model_profiles_key


class RedisProfiles:
    """`eunoe.workers.models.endpoint.profile.Profiles` on Redis, in one hash for all generations.

    Methods raise `Unavailable`.

    ``prefix``: of all names.
    """

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._key = model_profiles_key(prefix)

    async def get(self, endpoint: str, /) -> str | None:
        """The profile under an endpoint's name; `None` where there is none."""
        found = await self._redis.command("HGET", self._key, endpoint)
        return None if found is None else as_text(found)

    async def put(self, endpoint: str, text: str, /) -> None:
        """Store a profile."""
        await self._redis.command("HSET", self._key, endpoint, text)
