"""Connection to Redis: commands, Lua scripts, and faults that mean an unavailable server."""

import hashlib
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any, Self, cast

from redis import exceptions as faults
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool

from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.streams.tracing import step
from eunoe.workers.stores.redis.command_pipeline import CommandPipeline

RedisClient = Redis | RedisCluster

_REDIS = {"db.system.name": "redis"}

# ConnectionErrors also cover "max number of clients": such a server is unavailable to us
_AWAY = (
    faults.ConnectionError,
    faults.TimeoutError,
    faults.ReadOnlyError,
    faults.ClusterError,
    faults.OutOfMemoryError,
    faults.TryAgainError,
    faults.AskError,
    faults.SlotNotCoveredError,
)
_AWAY_CODES = ("LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "TRYAGAIN", "BUSY")
_LOGIN_REFUSED = (
    "invalid username-password pair",
    "WRONGPASS",
    "NOAUTH",
    "Authentication required",
    "HELLO must be called with the client already authenticated",  # what a cluster gives of NOAUTH
)
_AWAY_CLUSTER = ("cannot be connected", "not covered", "could not agree")


def is_away(fault: Exception) -> bool:
    """Whether a fault of redis-py means that the server cannot serve now; the request may have been applied or not."""
    if isinstance(fault, _AWAY) or is_closed(fault):
        return True
    if isinstance(fault, faults.ResponseError):
        return str(fault).partition(" ")[0] in _AWAY_CODES
    return isinstance(fault, faults.RedisClusterException) and any(sign in str(fault) for sign in _AWAY_CLUSTER)


def is_closed(fault: Exception) -> bool:
    """Whether uvloop reports a connection that closed during a request; asyncio's own loops raise ``OSError``."""
    return isinstance(fault, RuntimeError) and "handler is closed" in str(fault)


def _refusal(fault: BaseException, *, asks_cluster: bool) -> str | None:
    """The refusal of a server, and the setting to change; `None` for any other fault."""
    # clusters and sentinels give the faults of their nodes as text
    text = str(fault)
    if isinstance(fault, faults.AuthenticationError) or any(sign in text for sign in _LOGIN_REFUSED):
        return "refuses the login: set user and password in EUNOE_REDIS_URL"
    if isinstance(fault, faults.NoPermissionError):
        return f"does not let this user do everything ({text:.200}): grant ~PREFIX* and the commands to it"
    if "running in protected mode" in text:
        return "answers its own machine alone (protected-mode): give it a password, or a network that nobody else is in"
    if isinstance(fault, faults.ResponseError) and "DB index" in text:
        return "has no such database: change the number at the end of EUNOE_REDIS_URL"
    if isinstance(fault, faults.InvalidResponse) or "Protocol error, got" in text:
        return "answers, but not as Redis does: set its host and port in EUNOE_REDIS_URL, and rediss:// for a TLS port"
    if isinstance(fault, faults.MovedError | faults.ClusterCrossSlotError) and not asks_cluster:
        return "is a node of a cluster: begin EUNOE_REDIS_URL with redis+cluster:// (rediss+cluster:// with TLS)"
    if "Cluster mode is not enabled" in text or "cluster support disabled" in text:
        return "is no cluster: begin EUNOE_REDIS_URL with redis:// (rediss:// with TLS)"
    return tls_refusal(fault, "add ?ssl_ca_certs=FILE to EUNOE_REDIS_URL, or use redis:// for a port without TLS")


def tls_refusal(fault: BaseException | None, advice: str) -> str | None:
    """The fault of TLS among the causes of a fault, followed by ``advice``; `None` where there is none."""
    for _ in range(8):
        if fault is None:
            return None
        if isinstance(fault, ssl.SSLCertVerificationError):
            return f"has a certificate that is not trusted ({fault.verify_message}): {advice}"
        if isinstance(fault, ssl.SSLError):
            return f"refuses TLS ({fault.reason or fault}): {advice}"
        fault = fault.__cause__ or fault.__context__
    return None


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script and its SHA-1, by which Redis caches it."""

    name: str
    source: str
    sha: str

    @classmethod
    def load(cls, name: str, package: str = "eunoe.workers.stores.redis") -> Self:
        """Read the script ``<name>.lua`` of a package."""
        source = resources.files(package).joinpath(f"{name}.lua").read_text("utf-8")
        return cls(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


class RedisConnection:
    """A client that raises `Unavailable`, with the host, while the server is away."""

    def __init__(self, client: RedisClient) -> None:
        self.client = client
        # no shared pipeline in a cluster: its keys lie on several servers
        self._ask = client.execute_command if isinstance(client, RedisCluster) else _pipelined(client)

    @property
    def host(self) -> str:
        """``host:port`` of the server, without user and password.

        For a cluster, the start-up nodes; for sentinels, the master's name and their addresses.
        """
        if isinstance(self.client, RedisCluster):
            return ",".join(self.client.nodes_manager.startup_nodes)
        pool = self.client.connection_pool
        if isinstance(pool, SentinelConnectionPool):
            return f"{pool.service_name} of {','.join(map(_address, pool.sentinel_manager.sentinels))}"
        settings = pool.connection_kwargs
        return str(settings.get("path") or _address(self.client))

    @contextmanager
    def translating_faults(self) -> Iterator[None]:
        """Raise `Unavailable` for faults of an absent server; let all others pass."""
        try:
            yield
        except (faults.RedisError, faults.RedisClusterException, RuntimeError) as fault:
            server = f"Redis at {self.host}"
            if (advice := _refusal(fault, asks_cluster=isinstance(self.client, RedisCluster))) is not None:
                raise Misconfigured(f"{server} {advice}", server) from fault
            if not is_away(fault):
                raise
            text = str(fault).partition(" : <")[0]  # sentinels add the settings of their connections
            raise Unavailable(f"{server}: {type(fault).__name__}: {text:.300}", server) from fault

    async def check_undivided(self, prefix: str) -> None:
        """Raise `Misconfigured` for a node of a cluster that is asked as one server.

        One that has all slots answers most requests, and refuses those for keys of several. Raises `Unavailable`.
        """
        if not isinstance(self.client, RedisCluster):
            await self.command("EXISTS", f"{prefix}:_a", f"{prefix}:_b")

    async def processes(self) -> frozenset[str]:
        """The ids of the servers that take writes: one that restarts, or takes the place of another, has a new id.

        Raises `Unavailable`.
        """
        with self.translating_faults():
            if not isinstance(self.client, RedisCluster):
                return frozenset([str((await self.client.info("server"))["run_id"])])
            await self.client.initialize()
            told = await of_primaries(self.client, self.client.info, "server")
            return frozenset(str(one["run_id"]) for one in told.values())

    async def clock(self) -> int:
        """The server's clock, in seconds since the epoch; of a cluster that of one server. Raises `Unavailable`."""
        with self.translating_faults():
            if isinstance(self.client, RedisCluster):
                told: Any = await self.client.time(target_nodes=RedisCluster.RANDOM)
            else:
                told = await self.client.time()
            return int(told[0])

    async def command(self, *words: str | int | bytes) -> Any:  # noqa: ANN401 - each command has its own reply
        """Run one command; its round trip may be shared with others. Raises `Unavailable`."""
        with step(f"{cast('str', words[0])} redis", _REDIS), self.translating_faults():
            return await self._ask(*words)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | int | bytes]) -> Any:  # noqa: ANN401
        """Run one script, which Redis executes atomically; its source is sent only if Redis does not have it cached.

        Raises `Unavailable`.
        """
        words = (len(keys), *keys, *arguments)
        with step(f"{script.name} redis", _REDIS), self.translating_faults():
            try:
                return await self._ask("EVALSHA", script.sha, *words)
            except faults.NoScriptError:
                return await self._ask("EVAL", script.source, *words)


async def of_primaries(client: RedisCluster, command: Callable[..., Any], *words: str) -> Mapping[str, Any]:
    """The answers of the primaries of a cluster to a command of redis-py, by address. Raises ``RedisError``."""
    # redis-py's types do not cover the answers of several nodes
    answers = await command(*words, target_nodes=RedisCluster.PRIMARIES)
    primaries = client.get_primaries()
    # that of the only one is given as it is
    return {primaries[0].name: answers} if len(primaries) == 1 else cast("Mapping[str, Any]", answers)


def _pipelined(client: Redis) -> Callable[..., Awaitable[Any]]:
    pipeline = CommandPipeline(client)
    return lambda *words: pipeline.command(words)


def _address(client: Redis) -> str:
    settings = client.connection_pool.connection_kwargs
    return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"


def as_text(value: str | bytes) -> str:
    """A reply as text, whether the client decodes replies or not."""
    return value.decode() if isinstance(value, bytes) else value


def as_bytes(value: str | bytes) -> bytes:
    """A reply as bytes, whether the client decodes replies or not."""
    return value.encode() if isinstance(value, str) else value


def as_scores(reply: Sequence[Any]) -> list[tuple[str, float]]:
    """A reply WITHSCORES as members and scores; RESP3 gives them in pairs, RESP2 one after the other."""
    is_paired = bool(reply) and isinstance(reply[0], list | tuple)
    pairs = reply if is_paired else zip(reply[::2], reply[1::2], strict=True)
    return [(as_text(member), float(score)) for member, score in pairs]


def as_table(reply: Mapping[str | bytes, str | bytes]) -> dict[str, str]:
    """A reply to HGETALL as text."""
    return {as_text(name): as_text(value) for name, value in reply.items()}
