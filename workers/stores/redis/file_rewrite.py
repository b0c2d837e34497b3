"""Rewrites the append-only file of a Redis, which keeps what was deleted until then."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from redis import exceptions as faults
from redis.asyncio import Redis

_LOOK_S: Final = 0.02


async def files_at_rest(redis: Redis) -> Mapping[str, Any]:
    """The state of the server's files, once none is being rewritten; raises what the client raises."""
    while True:
        found: Mapping[str, Any] = await redis.info("persistence")
        if not int(found.get("aof_rewrite_in_progress", 0)) and not int(found.get("aof_rewrite_scheduled", 0)):
            return found
        await asyncio.sleep(_LOOK_S)  # Redis tells nobody when it is done


async def rewrite_file(redis: Redis) -> bool:
    """Let the server write its file anew (BGREWRITEAOF); returns whether it could. Raises what the client raises."""
    await files_at_rest(redis)
    try:
        await redis.bgrewriteaof()
    except faults.ResponseError as fault:
        if "in progress" not in str(fault):  # one that began since will do: what was deleted is gone from the memory
            raise
    return (await files_at_rest(redis)).get("aof_last_bgrewrite_status") == "ok"
