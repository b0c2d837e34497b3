"""Redis clients for one server, a cluster or a master behind sentinels, with a bounded pool of connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from eunoe.deploy.clients.redis_url import SETTING, RedisKind, RedisUrl, parse_redis_url
from eunoe.schemas.errors import Refused
from eunoe.workers.stores.connection import RedisClient, is_closed

CONNECTIONS: Final = 64
"""Connections of a process, shared by hundreds of conversations; a caller waits for a free one."""
_SPARE: Final = 36
"""Further connections to a cluster node, for the client's own requests about the slots of the cluster."""
_SOCKET: Final[dict[str, Any]] = {"socket_timeout": 10, "socket_connect_timeout": 5, "health_check_interval": 30}
_POOL: Final[dict[str, Any]] = {"max_connections": CONNECTIONS, "timeout": 10}


class BoundedCluster(RedisCluster):
    """redis-py's cluster client, safe for hundreds of concurrent callers.

    The original raises for a caller without a free connection, sends commands to any node before it knows the slots of
    the cluster, and raises ``AttributeError`` for connections that are discarded while they are opened.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as in redis-py
        super().__init__(**options)
        self._free = asyncio.Semaphore(CONNECTIONS)

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """Run one command as soon as a connection is free."""
        async with self._free:
            await self.initialize()
            try:
                return await super().execute_command(*args, **kwargs)
            except AttributeError as fault:
                if fault.obj is not None:
                    raise
                raise ConnectionLost("connection closed while it was opened") from fault
            except RuntimeError as fault:
                if not is_closed(fault):
                    raise
                raise ConnectionLost("connection closed during a request") from fault


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """A pool of connections to the current master; callers wait for a free one."""


@asynccontextmanager
async def open_redis_url(text: str) -> AsyncIterator[RedisClient]:
    """The client for an address, not connected yet, closed at the end; raises `Refused` for an unusable address."""
    url = parse_redis_url(text)
    sentinel: Sentinel | None = None
    try:
        if url.kind is RedisKind.CLUSTER:
            client: RedisClient = _cluster(url)
        elif url.kind is RedisKind.SENTINEL:
            sentinel = _sentinel(url)
            client = sentinel.master_for(url.master, connection_pool_class=_SentinelPool)
        else:
            client = Redis.from_pool(_pool(url))
    except (ValueError, TypeError, OSError, RedisError) as error:
        raise Refused(f"{SETTING}: unusable address ({type(error).__name__})") from None
    try:
        yield client
    finally:
        await client.aclose()
        for node in sentinel.sentinels if sentinel else ():
            await node.aclose()


def _pool(url: RedisUrl) -> BlockingConnectionPool:
    if url.kind is RedisKind.SOCKET:
        kind: dict[str, Any] = {"connection_class": UnixDomainSocketConnection, "path": url.path}
    else:
        ((host, port),) = url.nodes
        kind = {"host": host, "port": port, **({"connection_class": SSLConnection} if url.tls else {})}
    options: dict[str, Any] = {"db": url.database, **kind, **url.options, **_SOCKET, **_POOL}
    return BlockingConnectionPool(**options)


def _cluster(url: RedisUrl) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in url.nodes]
    most = CONNECTIONS + _SPARE
    return BoundedCluster(startup_nodes=nodes, ssl=url.tls, max_connections=most, **url.options, **_SOCKET)


def _sentinel(url: RedisUrl) -> Sentinel:
    tls = {"ssl": True} if url.tls else {}
    own = {**url.sentinel_options, **tls, **_SOCKET}
    options = {"db": url.database, **url.options, **tls, **_SOCKET, **_POOL}
    return Sentinel(url.nodes, sentinel_kwargs=own, **options)  # type: ignore[no-untyped-call]
