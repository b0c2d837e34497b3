"""Lets the servers rewrite their files, which keep what was deleted."""

import asyncio

from redis.asyncio import Redis
from redis.exceptions import RedisError

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.generations.erase.receipt import NotCovered
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Collection

_POLL_S = 0.05
_REWRITE_S = 600.0


async def rewrite_files(clients: Clients, settings: Settings) -> tuple[NotCovered, ...]:
    """Rewrite Redis' append-only file and the files of the embedded Qdrant; returns what could not be rewritten."""
    left = await _rewrite_redis(clients)
    if not settings.broker.embedded:
        points = NotCovered(
            place="qdrant: segments and write-ahead log on disk",
            why="deleted points stay until the optimizer rewrites their segment",
            until="Qdrant vacuums the segment, or `eunoe rebuild`, `promote` and `drop` replace the generation",
        )
        return (*left, points)
    for collection in Collection:
        await clients.index.rewrite(collection)
    return left


async def _rewrite_redis(clients: Clients) -> tuple[NotCovered, ...]:
    """BGREWRITEAOF, waited for; a server without the file, or that refuses, is named."""
    where = "redis: append-only file"
    if not isinstance(clients.redis, Redis):
        why = "a cluster: rewrite it on each node (BGREWRITEAOF)"
        return (NotCovered(place=where, why=why, until="each node has rewritten it"),)
    try:
        if not await _persistence(clients.redis, "aof_enabled"):
            return ()
        await clients.redis.bgrewriteaof()
        async with asyncio.timeout(_REWRITE_S):
            await _rewritten(clients.redis)
    except (RedisError, TimeoutError) as fault:
        return (NotCovered(place=where, why=f"not rewritten: {fault}", until="BGREWRITEAOF"),)
    return ()


async def _rewritten(redis: Redis) -> None:
    while await _persistence(redis, "aof_rewrite_in_progress") + await _persistence(redis, "aof_rewrite_scheduled"):  # noqa: ASYNC110 - Redis tells nobody
        await asyncio.sleep(_POLL_S)


async def _persistence(redis: Redis, name: str) -> int:
    found = await redis.info("persistence")
    return int(found.get(name, 0))
