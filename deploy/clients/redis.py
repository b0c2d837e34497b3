"""Redis clients for one server, a cluster or a master behind sentinels, with a bounded pool of connections."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from eunoe.deploy.clients.redis_connections import QuickPool, SocketConnection, TcpConnection, TlsConnection
from eunoe.deploy.clients.redis_tls import wrong_scheme
from eunoe.deploy.clients.redis_url import SETTING, RedisKind, RedisUrl, parse_redis_url
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.workers.stores.redis.connection import RedisClient, is_closed

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
async def open_redis_url(text: str, limit_s: float | None = None) -> AsyncIterator[RedisClient]:
    """The client for an address, not connected yet, closed at the end.

    ``limit_s`` is the time after which a server that does not answer is away, without another try; `None` means that
    of the stages, which have more patience. Raises `Refused` for an unusable address. Where the block raises
    `Unavailable` for a server that speaks TLS and the address says otherwise, or the reverse, this becomes
    `Misconfigured`.
    """
    url, times = parse_redis_url(text), _times(limit_s)
    _check_files(url)
    sentinel: Sentinel | None = None
    try:
        if url.kind is RedisKind.CLUSTER:
            client: RedisClient = _cluster(url, times)
        elif url.kind is RedisKind.SENTINEL:
            sentinel = _sentinel(url, times)
            client = sentinel.master_for(url.master, connection_pool_class=_SentinelPool)
        else:
            client = Redis.from_pool(_pool(url, times))
    except (ValueError, TypeError, OSError, RedisError) as error:
        raise Refused(f"{SETTING}: unusable address ({type(error).__name__})") from None
    try:
        yield client
    except Misconfigured:
        raise
    except Unavailable as fault:
        if fault.server.startswith("Redis at") and (advice := await wrong_scheme(url)):
            raise Misconfigured(advice, fault.server) from fault
        raise
    finally:
        await client.aclose()
        for node in sentinel.sentinels if sentinel else ():
            await node.aclose()


def _check_files(url: RedisUrl) -> None:
    """Raise `Refused` for a missing file of TLS: redis-py reports it as a lost connection."""
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        path = url.options.get(name)
        if isinstance(path, str) and not Path(path).is_file():
            raise Refused(f"{SETTING}: {name}: there is no file {path}")


def _times(limit_s: float | None) -> dict[str, Any]:
    """The options of connections and of pools that bound times."""
    if limit_s is None:
        return {**_SOCKET, **_POOL}
    once = Retry(NoBackoff(), 0)
    bounds = {"socket_timeout": limit_s, "socket_connect_timeout": limit_s, "retry": once, "timeout": limit_s}
    return {**_SOCKET, **_POOL, **bounds}


def _pool(url: RedisUrl, times: Mapping[str, Any]) -> BlockingConnectionPool:
    if url.kind is RedisKind.SOCKET:
        kind: dict[str, Any] = {"connection_class": SocketConnection, "path": url.path}
    else:
        ((host, port),) = url.nodes
        kind = {"host": host, "port": port, "connection_class": TlsConnection if url.tls else TcpConnection}
    options: dict[str, Any] = {"db": url.database, **kind, **url.options, **times}
    return QuickPool(**options)


def _cluster(url: RedisUrl, times: Mapping[str, Any]) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in url.nodes]
    most = CONNECTIONS + _SPARE
    return BoundedCluster(startup_nodes=nodes, ssl=url.tls, max_connections=most, **url.options, **_of_sockets(times))


def _of_sockets(times: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in times.items() if name not in _POOL}


def _sentinel(url: RedisUrl, times: Mapping[str, Any]) -> Sentinel:
    tls = {"ssl": True} if url.tls else {}
    # whoever connects to the master asks again; were each sentinel asked again too, a silent one would cost minutes
    own = {**url.sentinel_options, **tls, **_of_sockets(times), "retry": Retry(NoBackoff(), 0)}
    options = {"db": url.database, **url.options, **tls, **times}
    return Sentinel(url.nodes, sentinel_kwargs=own, **options)  # type: ignore[no-untyped-call]
