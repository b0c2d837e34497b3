"""Real servers of the state store under a schedule: Valkeys, of which each can go back alone, and a cold store.

Each command and script waits at the gate before it is sent, and is answered before the next step. Several servers share
the slots as those of a cluster do; what else a cluster does is not needed here, and would take seconds at each restart.
"""

import random
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot

from eunoe.deploy.local.ports import free_port
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.position_ports import HandledPositions
from eunoe.workers.stores.cold.conversations import ColdAccess
from eunoe.workers.stores.cold.freezer import Freezer
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.support.in_memory import Stores
from tests.support.memory.cold_store import MemoryColdStore
from tests.support.schedule_stores import MAX_COPIES, TABLES, Gate, Gated
from tests.support.valkeys import SLOTS, Valkey

Ask = Callable[[tuple[Any, ...]], Awaitable[Any]]
"""Sends the words of a command to the server that holds its key."""


@dataclass
class _Server:
    """A Valkey, and copies of what it held."""

    valkey: Valkey
    copies: list[bytes] = field(default_factory=list)

    @property
    def _file(self) -> Path:
        return self.valkey.directory / "dump.rdb"

    def empty(self) -> None:
        """Begin anew."""
        self.valkey.ask("FLUSHALL")
        self.valkey.ask("SCRIPT", "FLUSH")  # as it was started: a seed has the same steps each time
        self.copies.clear()

    def keep_copy(self) -> None:
        """Keep what it holds now."""
        assert self.valkey.ask("SAVE")
        self.copies.append(self._file.read_bytes())

    def forget_copies(self, snapshot: str) -> None:
        """Forget the copies that may ask for a snapshot; one that has brought it back does not."""
        named = re.compile(rb":cold(/next)?." + re.escape(snapshot.encode()), re.DOTALL)  # key, length, value
        self.copies = [copy for copy in self.copies if not named.search(copy)]

    def turn_back(self, place: int) -> None:
        """Start it again over a copy."""
        self.valkey.kill()
        del self.copies[place + 1 :]  # they are of a time that has not been
        self._file.write_bytes(self.copies[place])
        self.valkey.start()


class _ColdStore(MemoryColdStore):
    """A cold store; no server goes back to a time when it named what was removed since.

    A conversation is frozen again after days, in which no server loses all its writes.
    """

    def __init__(self, servers: Sequence[_Server]) -> None:
        super().__init__()
        self._servers = servers

    async def remove(self, names: Sequence[str]) -> None:
        """Delete files."""
        for name in names:
            for server in self._servers:
                server.forget_copies(name.rpartition("/")[2])
        await super().remove(names)


class RedisServers:
    """One server, or several that share the slots."""

    def __init__(self, directory: Path, count: int) -> None:
        words = ("--save", "", "--appendonly", "no", "--rdbcompression", "no")
        self._servers = [_Server(Valkey(directory / str(number), free_port(), words)) for number in range(count)]
        self._clients: list[Redis] = []
        self._keys = Keys()
        self._cold = _ColdStore(self._servers)
        self._choose = random.Random(0)
        self._repeats = 0.0
        self.index = MemoryIndex()
        self.frozen = 0
        """Conversations that were frozen."""
        self.repeated = 0
        """Requests that were sent twice."""

    def __enter__(self) -> Self:
        for server in self._servers:
            server.valkey.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.valkey.kill()

    @asynccontextmanager
    async def emptied(self, seed: int, repeats: float) -> AsyncIterator[None]:
        """Hold nothing at the begin of the body, whose event loop the clients belong to.

        ``repeats``: how often an answer is lost, so that the client sends its request again.
        """
        for server in self._servers:
            server.empty()
        self._clients = [Redis(port=server.valkey.port) for server in self._servers]
        self._cold, self.index = _ColdStore(self._servers), MemoryIndex()
        self._choose, self._repeats = random.Random(seed), repeats
        self.frozen = self.repeated = 0
        try:
            yield
        finally:
            for client in self._clients:
                await client.aclose()

    # ---- as processes use them

    def stores(self, gate: Gate, process: object) -> Stores:
        """The stores as a process uses them."""
        client = self._client(gate, process)
        state: Any = RedisStore(client, self._keys, cold=ColdAccess(self._gated_cold(gate, process), thaws=True))
        index: Any = Gated(self.index, gate, process)
        log_positions: Any = RedisLogPositions(client, self._keys)
        return Stores(state, index, log_positions)

    def positions(self, gate: Gate, process: object) -> HandledPositions:
        """Handled positions as a process uses them."""
        return RedisHandledPositions(self._client(gate, process), self._keys)

    async def freeze(self, gate: Gate, process: object, key: str, partition: int) -> None:
        """Take a conversation to the cold store, if nothing stands against it."""
        client = self._client(gate, process)
        freezer = Freezer(client, self._keys, self._gated_cold(gate, process), TABLES, after_s=0, settle_s=0)
        with suppress(Unavailable):  # as where the mark of the cold store was lost a moment ago: another time
            await freezer.mark.ensure()
            self.frozen += await freezer.freeze(key, partition, timer="")

    @property
    def transplants(self) -> RedisTransplants:
        """What reads the state at the end, without a gate."""
        client = self._of_kind(self._ask)
        cold = ColdAccess(self._cold, thaws=False)
        return RedisTransplants(RedisStore(client, self._keys, cold=cold), client, self._keys)

    def _gated_cold(self, gate: Gate, process: object) -> Any:
        return Gated(self._cold, gate, process)

    def _client(self, gate: Gate, process: object) -> RedisClient:
        async def ask(words: tuple[Any, ...]) -> Any:
            async with gate.request(process):
                answer = await self._ask(words)
            if self._choose.random() >= self._repeats:
                return answer
            self.repeated += 1
            async with gate.request(process):
                return await self._ask(words)

        return self._of_kind(ask)

    def _of_kind(self, ask: Ask) -> RedisClient:
        return _OneServer(ask) if len(self._servers) == 1 else _SeveralServers(ask, len(self._servers))

    async def _ask(self, words: tuple[Any, ...]) -> Any:
        of_script = words[0] in {"EVAL", "EVALSHA"}
        slot = key_slot(str(words[3] if of_script else words[1]).encode())
        return await self._clients[_server_of(slot, len(self._servers))].execute_command(*words)  # type: ignore[no-untyped-call]

    # ---- faults

    def keep_copy(self, choose: random.Random) -> None:
        """Copy what a server holds."""
        choose.choice(self._servers).keep_copy()

    def turn_back(self, choose: random.Random) -> bool:
        """Put one of the last copies in the place of what a server holds; False where there is none."""
        server = choose.choice(self._servers)
        if server.copies:
            server.turn_back(choose.randrange(max(0, len(server.copies) - MAX_COPIES), len(server.copies)))
        return bool(server.copies)


@dataclass(frozen=True)
class _Node:
    name: str


def _server_of(slot: int, count: int) -> int:
    return slot * count // SLOTS


@cache
def _slots(count: int) -> dict[int, tuple[_Node, ...]]:
    """Slot → the server that holds it, as redis-py keeps it."""
    nodes = [_Node(f"server {number}") for number in range(count)]
    return {slot: (nodes[_server_of(slot, count)],) for slot in range(SLOTS)}


class _OneServer(Redis):
    """A client whose commands go one by one, also those that share a round trip."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self.connection_pool: Any = _Pool(ask)
        self.response_callbacks: Any = {}

    async def execute_command(self, *words: Any, **_: object) -> Any:
        return await self._ask(words)


@dataclass
class _Pool:
    ask: Ask
    connection_kwargs: Mapping[str, Any] = field(default_factory=dict)

    async def get_connection(self) -> "_Connection":
        return _Connection(self.ask)

    async def release(self, connection: "_Connection") -> None:
        connection.waiting.clear()


@dataclass
class _Connection:
    """Asks for a reply when it is read."""

    ask: Ask
    waiting: deque[tuple[Any, ...]] = field(default_factory=deque)
    retry: Retry = field(default_factory=lambda: Retry(NoBackoff(), 0))
    socket_timeout: float | None = None

    def pack_command(self, *words: Any) -> list[Any]:
        return [words]

    async def send_packed_command(self, commands: list[Any]) -> None:
        self.waiting.extend(commands)

    async def read_response(self, **_: object) -> Any:
        return await self.ask(self.waiting.popleft())

    async def disconnect(self) -> None:
        self.waiting.clear()


class _SeveralServers(RedisCluster):
    """A client of servers that share the slots."""

    def __init__(self, ask: Ask, count: int) -> None:
        self._ask = ask
        self._count = count
        self.nodes_manager: Any = SimpleNamespace(
            slots_cache=_slots(count), startup_nodes={"servers of a schedule": None}
        )

    async def initialize(self, *_: object, **__: object) -> Self:
        return self

    def get_primaries(self) -> list[Any]:
        return list(dict.fromkeys(node for (node,) in _slots(self._count).values()))

    async def execute_command(self, *words: Any, **_: object) -> Any:
        return await self._ask(words)
