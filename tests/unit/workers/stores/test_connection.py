"""Which faults of the Redis client mean that the server is away."""

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ClusterCrossSlotError, InvalidResponse, MovedError, RedisClusterException, ResponseError

from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.workers.stores.redis.connection import RedisConnection

CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"


CANNOT = "Redis Cluster cannot be connected. Please provide at least one reachable node: "
HELLO = (
    "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option"
)
HTTP = 'Protocol error, got "H" as reply type byte'
PROTECTED = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set"


def connection(fault: Exception, *, cluster: bool = False) -> RedisConnection:
    made = RedisConnection(RedisCluster(host="127.0.0.1", port=1) if cluster else Redis(port=1))

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


@pytest.mark.parametrize(
    ("fault", "cluster", "told"),
    [
        (
            MovedError("15504 127.0.0.1:25032"),
            False,
            r"node of a cluster: begin EUNOE_REDIS_URL with redis\+cluster://",
        ),
        (ClusterCrossSlotError("Keys in request don't hash to the same slot"), False, "is a node of a cluster"),
        (RedisClusterException(f"{CANNOT}Cluster mode is not enabled on this node"), True, "no cluster.*redis://"),
        (RedisClusterException(CANNOT + HELLO), True, "refuses the login: set user and password in EUNOE_REDIS_URL"),
        (ResponseError(PROTECTED), False, "Redis at localhost:1 answers its own machine alone.*password"),
        (RedisClusterException(CANNOT + PROTECTED), True, "answers its own machine alone.*password"),
        (InvalidResponse(HTTP), False, "not as Redis does: set its host and port in EUNOE_REDIS_URL.*rediss://"),
        (RedisClusterException(CANNOT + HTTP), True, "not as Redis does: set its host and port in EUNOE_REDIS_URL"),
    ],
    ids=[
        "one node of a cluster",
        "the one node of a cluster",
        "a cluster that is none",
        "a cluster without the password",
        "protected",
        "all protected",
        "another server",
        "no cluster but another server",
    ],
)
async def test_a_wrong_address_is_named_and_not_waited_for(fault: Exception, cluster: bool, told: str):
    with pytest.raises(Misconfigured, match=told):
        await connection(fault, cluster=cluster).command("GET", "a")


async def test_a_cluster_whose_slots_move_is_waited_for():
    with pytest.raises(Unavailable):
        await connection(MovedError("15504 127.0.0.1:25032"), cluster=True).command("GET", "a")
