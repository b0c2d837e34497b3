"""Lookups in the log: each has a Kafka consumer of its own, so that few are made at once."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from eunoe.deploy.gateway.keys import Caller
from eunoe.deploy.gateway.problems import Problem
from eunoe.streams.record import Record

SEARCH_COST: Final = 20
"""Requests as which a search counts: it takes 17 ms of the event loop, and what it reads."""
READ_COST: Final = 5
"""Requests as which one record at a known place counts."""
_AT_ONCE: Final = 8
_AT_ONCE_OF_CALLER: Final = 2
_WAITING_OF_CALLER: Final = 16


@dataclass(slots=True)
class _Turns:
    """The lookups of one key."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE_OF_CALLER))
    count: int = 0
    """Those that are made and those that wait."""


@dataclass(slots=True)
class Lookups:
    """Lets few lookups be made at once in a process, and fewer of one key; the others wait for their turn."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _of_caller: dict[str, _Turns] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """Those that are made and those that wait."""
        return sum(turns.count for turns in self._of_caller.values())

    def check(self, caller: Caller) -> None:
        """Raise `Problem` (429) where too many of the key wait."""
        turns = self._of_caller.get(caller.id)
        if turns is not None and turns.count >= _WAITING_OF_CALLER:
            why = f"this key has {turns.count} lookups in the log under way, the most that one may have"
            raise Problem(429, why, headers={"Retry-After": "2"})

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """Wait for a turn, and take it during the block."""
        turns = self._of_caller.setdefault(caller.id, _Turns())
        turns.count += 1
        try:
            async with turns.slots, self._slots:
                yield
        finally:
            turns.count -= 1
            if not turns.count:
                del self._of_caller[caller.id]

    async def in_turn(self, caller: Caller, records: AsyncGenerator[Record]) -> AsyncGenerator[Record]:
        """The same records, read in a turn."""
        async with aclosing(records), self.turn(caller):
            async for record in records:
                yield record
