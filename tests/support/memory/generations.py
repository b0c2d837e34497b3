"""The registry of generations in memory."""

from collections.abc import Mapping
from dataclasses import replace
from secrets import token_urlsafe

from eunoe.workers.stores.records.generations import Generation, Pointer


class MemoryGenerations:
    """`RedisGenerations` in memory."""

    def __init__(self) -> None:
        self._pointer = Pointer()
        self._generations: dict[str, Generation] = {}
        self._closed: dict[int, dict[int, int]] = {}
        self.announced: dict[str, str] = {}

    async def pointer(self) -> Pointer:
        """The generations that answer now."""
        return self._pointer

    async def begin(self, name: str) -> Pointer:
        """Make ``name`` live unless a generation already is."""
        self._pointer = Pointer(self._pointer.first or name, self._pointer.live or name)
        return self._pointer

    async def begin_promotion(self, name: str) -> None:
        """Note that the log is about to name ``name``."""
        self._pointer = replace(self._pointer, promoting=self._pointer.promoting or name)

    async def promote(self, name: str) -> None:
        """Make another generation live, and end the promotion that had begun."""
        self._pointer = replace(self._pointer, live=name, promoting=None)

    async def announce(self, name: str) -> str:
        """A new nonce for the records that promote ``name``."""
        nonce = token_urlsafe(24)
        self.announced[nonce] = name
        return nonce

    async def find(self, name: str) -> Generation | None:
        """The record of a generation."""
        return self._generations.get(name)

    async def all(self) -> list[Generation]:
        """All generations that rebuilds made, by name."""
        return [self._generations[name] for name in sorted(self._generations)]

    async def write(self, generation: Generation) -> None:
        """Record a generation or its new state."""
        self._generations[generation.name] = generation

    async def forget(self, name: str) -> None:
        """Delete the record of a generation, which is not live."""
        self._generations.pop(name, None)
        if self._pointer.first == name:
            self._pointer = replace(self._pointer, first=None)

    async def close_log(self, log: int, ends: Mapping[int, int]) -> None:
        """Retire a log; a second call changes nothing."""
        self._closed.setdefault(log, dict(ends))

    async def closed_log(self, log: int) -> dict[int, int] | None:
        """Partition → the first offset that is refused; `None` for a log that is not retired."""
        return self._closed.get(log)
