"""Throws away what can be made again from the log: after a stop that was not clean it may be ahead of the journal."""

from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient
from redis.asyncio import Redis

from eunoe.deploy.local.notice import StackUrls
from eunoe.workers.stores.keys import Keys
from eunoe.workers.stores.redis import forget_generation


@dataclass(frozen=True, slots=True)
class Discarded:
    """What was thrown away."""

    keys: int
    collections: tuple[str, ...]


async def discard_derived_state(urls: StackUrls, keys: Keys) -> Discarded:
    """Remove every Redis key and every Qdrant collection of the generation; recorded model answers stay.

    For a stack on which no worker runs. Raises `Unavailable` when Redis does not answer, and what qdrant-client raises
    when Qdrant does not.
    """
    redis: Redis = Redis.from_url(urls.redis_url)
    try:
        removed = await forget_generation(redis, keys)
    finally:
        await redis.aclose()
    client = AsyncQdrantClient(urls.qdrant_url, check_compatibility=False)
    try:
        return Discarded(removed, await _drop_collections(client, f"{keys.prefix}.{keys.generation}."))
    finally:
        await client.close()


async def _drop_collections(client: AsyncQdrantClient, beginning: str) -> tuple[str, ...]:
    found = [one.name for one in (await client.get_collections()).collections if one.name.startswith(beginning)]
    for name in found:
        await client.delete_collection(name)
    return tuple(sorted(found))
