"""Clients of Redis: one server, a cluster, a master behind sentinels; each with a bound of connections that waits."""

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
"""Hundreds of conversations share these; who finds none free waits."""
_SPARE: Final = 36
"""Connections to a node of a cluster beyond that: those that look after the cluster's plan."""
_SOCKET: Final[dict[str, Any]] = {"socket_timeout": 10, "socket_connect_timeout": 5, "health_check_interval": 30}
_POOL: Final[dict[str, Any]] = {"max_connections": CONNECTIONS, "timeout": 10}


class BoundedCluster(RedisCluster):
    """redis-py's client of a cluster, made fit for hundreds of callers at once.

    Its own fails the caller that finds no connection free; sends what comes before it knows the cluster's plan to any
    node; and, when it throws its connections away, lets those who are just opening one fail over ``None``.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - redis-py's own
        super().__init__(**options)
        self._places = asyncio.Semaphore(CONNECTIONS)

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        """One command, when there is a place for it."""
        async with self._places:
            await self.initialize()
            try:
                return await super().execute_command(*args, **kwargs)
            except AttributeError as fault:
                if fault.obj is not None:
                    raise
                raise ConnectionLost("closed while it was being opened") from fault
            except RuntimeError as fault:
                if not is_closed(fault):
                    raise
                raise ConnectionLost("closed under a request") from fault


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the master of the moment, for which callers wait."""


@asynccontextmanager
async def open_redis_url(text: str) -> AsyncIterator[RedisClient]:
    """The client of an address, closed at the end; no server is asked yet. Raises `Refused` for an unusable one."""
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
        raise Refused(f"{SETTING}: not usable ({type(error).__name__})") from None
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
