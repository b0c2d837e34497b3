"""Lets the servers rewrite their files, which keep what was deleted."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.generations.erase.receipt import NotCovered
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.file_rewrite import files_at_rest, rewrite_file
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

_REWRITE_S = 600.0


async def rewrite_files(generations: Sequence[Settings]) -> tuple[NotCovered, ...]:
    """Rewrite Redis' append-only file and the files that the embedded Qdrant has of these generations.

    Returns what could not be rewritten. Raises `Unavailable`.
    """
    settings = generations[-1]  # the servers of all are the same
    async with open_redis(settings) as redis:
        left = await rewrite_redis(redis)
    if not settings.broker.embedded:
        points = NotCovered(
            place="qdrant: segments and write-ahead log on disk",
            why="deleted points stay until the optimizer rewrites their segment",
            until="Qdrant vacuums the segment, or `eunoe rebuild`, `promote` and `drop` replace the generation",
        )
        return (*left, points)
    async with open_qdrant(settings) as client:
        for one in generations:
            for collection in Collection:
                await QdrantIndex(client, store_keys(one)).rewrite(collection)
    return left


async def rewrite_redis(redis: RedisClient) -> tuple[NotCovered, ...]:
    """BGREWRITEAOF, waited for; a server without the file, that refuses, or whose disk takes no new one, is named."""
    where = "redis: append-only file"
    if not isinstance(redis, Redis):
        why = "a cluster: rewrite it on each node (BGREWRITEAOF)"
        return (NotCovered(place=where, why=why, until="each node has rewritten it"),)
    try:
        async with asyncio.timeout(_REWRITE_S):
            if not int((await files_at_rest(redis)).get("aof_enabled", 0)) or await rewrite_file(redis):
                return ()
    except (RedisError, TimeoutError) as fault:
        return (NotCovered(place=where, why=f"not rewritten: {fault}", until="BGREWRITEAOF"),)
    return (NotCovered(place=where, why="not rewritten: BGREWRITEAOF failed, see its log", until="BGREWRITEAOF"),)
