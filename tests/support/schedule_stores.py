"""What a scheduler holds back: a gate, ports behind it, and the twin of a server that may go back.

Real servers under the same schedule are in `tests.support.schedule_redis`.
"""

import asyncio
import pickle
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import filterfalse
from typing import Any, Protocol

from eunoe.schemas.ports import Transplants
from eunoe.schemas.position_ports import HandledPositions
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.support.in_memory import Stores
from tests.support.memory.handled_positions import MemoryHandledPositions

TABLES = {name: spec.tables.all for name, spec in STAGES.items()}
"""Stage → its tables."""
MAX_COPIES = 3
"""The copies of a server, from the last on, that may come back."""


class Gate:
    """Where everything waits for the scheduler."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._under_way: set[asyncio.Future[None]] = set()

    async def __call__(self, process: object) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    @asynccontextmanager
    async def request(self, process: object) -> AsyncIterator[None]:
        """Wait at the gate; until the body ends, the scheduler takes no other step."""
        await self(process)
        done = asyncio.get_running_loop().create_future()
        self._under_way.add(done)
        try:
            yield
        finally:
            self._under_way.discard(done)
            done.set_result(None)

    def open_one(self, choose: random.Random) -> bool:
        """Let one pass; False where none waits."""
        self._waiting = list(filterfalse(asyncio.Future.done, self._waiting))
        if self._waiting:
            choose.choice(self._waiting).set_result(None)
        return bool(self._waiting)

    async def settle(self) -> None:
        """Let every task run until it waits at the gate, for a hundred turns of the event loop at most."""
        await _turns()
        while self._under_way:
            await asyncio.wait(self._under_way)
            await _turns()


async def _turns() -> None:
    ready = getattr(asyncio.get_running_loop(), "_ready", (None,))  # most of the time of a run was empty turns
    for _ in range(100):
        await asyncio.sleep(0)
        if not ready:
            return


class Gated:
    """A port whose every method waits at the gate first."""

    def __init__(self, port: Any, gate: Gate, process: object) -> None:
        self._port, self._gate, self._process = port, gate, process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._gate(self._process)
            return await method(*args, **kwargs)

        return call


class StoreServers(Protocol):
    """The servers of the state store under a schedule, and the vector index, which loses nothing."""

    @property
    def index(self) -> MemoryIndex:
        """The vector index without its gate."""
        ...

    @property
    def transplants(self) -> Transplants:
        """What reads the state at the end, without a gate."""
        ...

    def stores(self, gate: Gate, process: object) -> Stores:
        """The stores as a process uses them."""
        ...

    def positions(self, gate: Gate, process: object) -> HandledPositions:
        """Handled positions as a process uses them."""
        ...

    async def freeze(self, gate: Gate, process: object, key: str, partition: int) -> None:
        """Take a conversation to the cold store, if nothing stands against it."""
        ...

    def keep_copy(self, choose: random.Random) -> None:
        """Copy what a server holds."""
        ...

    def turn_back(self, choose: random.Random) -> bool:
        """Put one of the last copies in the place of what a server holds; False where there is none."""
        ...


class TwinServers:
    """The twin of one server."""

    def __init__(self) -> None:
        self.held = Stores()
        self.index = self.held.index
        self.transplants = self.held.state
        self._handled = MemoryHandledPositions(self.held.state)
        self._copies: list[bytes] = []
        """What the server held, pickled: that takes a quarter of the time of `copy.deepcopy`."""
        self._restarts = 0

    def stores(self, gate: Gate, process: object) -> Stores:
        """The stores as a process uses them."""
        held = self.held
        return Stores(*(Gated(port, gate, process) for port in (held.state, held.index, held.log_positions)))

    def positions(self, gate: Gate, process: object) -> HandledPositions:
        """Handled positions as a process uses them."""
        gated: Any = Gated(self._handled, gate, process)
        return gated  # type: ignore[no-any-return]

    async def freeze(self, gate: Gate, process: object, key: str, partition: int) -> None:
        """Do nothing: the twin has no cold store."""

    def keep_copy(self, choose: random.Random) -> None:
        """Copy all that the server holds."""
        self._copies.append(pickle.dumps(self._parts()))

    def turn_back(self, choose: random.Random) -> bool:
        """Put one of the last copies in its place."""
        if not self._copies:
            return False
        place = choose.randrange(max(0, len(self._copies) - MAX_COPIES), len(self._copies))
        del self._copies[place + 1 :]  # they are of a time that has not been
        for there, copied in zip(self._parts(), pickle.loads(self._copies[place]), strict=True):
            there.clear()
            there.update(copied)
        self._restarts += 1
        self.held.state.server = f"memory {self._restarts}"
        return True

    def _parts(self) -> list[Any]:
        state, log_positions, handled = self.held.state, self.held.log_positions, self._handled
        tables = (state._ledgers, state._expiry, state._tables, state._parked)
        return [*tables, log_positions._timers, log_positions._promotions, handled._positions, handled._owners]
