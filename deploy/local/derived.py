"""Deletion of derived state, which after an unclean stop may be ahead of the journal."""

from dataclasses import dataclass

from redis.asyncio import Redis

from eunoe.deploy.local.notice import StackUrls
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest


@dataclass(frozen=True, slots=True)
class Discarded:
    """Numbers and names of what was deleted."""

    keys: int
    collections: tuple[str, ...]


async def discard_derived_state(urls: StackUrls, keys: Keys) -> Discarded:
    """Delete all Redis keys and Qdrant collections of a generation; recorded answers of models stay.

    No worker may run on the stack. Raises `Unavailable` when Redis does not answer, and the exceptions of
    `QdrantRest` when Qdrant does not.
    """
    redis: Redis = Redis.from_url(urls.redis_url)
    try:
        removed = await forget_generation(redis, keys)
    finally:
        await redis.aclose()
    client = QdrantRest(urls.qdrant_url, api_key=urls.qdrant_api_key)
    try:
        return Discarded(removed, await _drop_collections(client, f"{keys.prefix}.{keys.generation}."))
    finally:
        await client.close()


async def _drop_collections(client: QdrantRest, prefix: str) -> tuple[str, ...]:
    found = [name for name in await client.collections() if name.startswith(prefix)]
    for name in found:
        await client.delete_collection(name)
    return tuple(sorted(found))
