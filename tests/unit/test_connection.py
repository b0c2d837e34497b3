"""Which faults of the Redis client mean that the server is away."""

import pytest
from redis.asyncio import Redis

from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.connection import RedisConnection

CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"


def connection(fault: Exception) -> RedisConnection:
    made = RedisConnection(Redis(port=1))

    async def fails(*_words: object) -> None:
        raise fault

    made._ask = fails
    return made


async def test_a_connection_that_uvloop_found_closed_is_a_server_that_is_away():
    with pytest.raises(Unavailable, match="handler is closed"):
        await connection(RuntimeError(CLOSED)).command("PING")


async def test_any_other_fault_of_ours_stays_what_it_is():
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await connection(RuntimeError("a fault of ours")).command("PING")
