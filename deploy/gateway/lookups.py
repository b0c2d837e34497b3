"""Lookups in the log: each has a Kafka consumer of its own, so that few are made at once."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from eunoe.deploy.gateway.keys import Caller
from eunoe.deploy.gateway.problems import Problem

SEARCH_COST: Final = 20
"""Requests as which a search counts: it takes 17 ms of the event loop, and what it reads."""
READ_COST: Final = 5
"""Requests as which one record at a known place counts."""
_AT_ONCE: Final = 8
_AT_ONCE_OF_TENANT: Final = 4
_AT_ONCE_OF_KEY: Final = 2
_WAITING_OF_TENANT: Final = 64
_WAITING_OF_KEY: Final = 16


@dataclass(slots=True)
class _Turns:
    """The lookups of one key, or of one tenant."""

    slots: asyncio.Semaphore
    count: int = 0
    """Those that are made and those that wait."""


@dataclass(slots=True)
class Lookups:
    """Lets few lookups be made at once in a process, fewer of one tenant and key; the others wait for their turn."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _of_tenant: dict[str, _Turns] = field(default_factory=dict)
    _of_key: dict[str, _Turns] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """Those that are made and those that wait."""
        return sum(turns.count for turns in self._of_key.values())

    def check(self, caller: Caller) -> None:
        """Raise `Problem` (429) where too many of the key or of its tenant wait."""
        _check(self._of_key.get(caller.id), _WAITING_OF_KEY, "this key has")
        _check(self._of_tenant.get(caller.tenant), _WAITING_OF_TENANT, "the keys of this tenant have")

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """Wait for a turn, and take it during the block."""
        with (
            _counted(self._of_key, caller.id, _AT_ONCE_OF_KEY) as of_key,
            _counted(self._of_tenant, caller.tenant, _AT_ONCE_OF_TENANT) as of_tenant,
        ):
            async with of_key, of_tenant, self._slots:
                yield


def _check(turns: _Turns | None, most: int, whose: str) -> None:
    if turns is not None and turns.count >= most:
        why = f"{whose} {turns.count} lookups in the log under way, the most that one may have"
        raise Problem(429, why, headers={"Retry-After": "2"})


@contextmanager
def _counted(all_: dict[str, _Turns], name: str, at_once: int) -> Iterator[asyncio.Semaphore]:
    """The slots of a key or a tenant, in which one more waits during the block."""
    turns = all_.setdefault(name, _Turns(asyncio.Semaphore(at_once)))
    turns.count += 1
    try:
        yield turns.slots
    finally:
        turns.count -= 1
        if not turns.count:
            del all_[name]
