"""Which generations of the memory there are, what each was made with, and which of them readers see."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from pydantic import Field

from eunoe.schemas.base import Time, Value
from eunoe.workers.stores.connection import RedisClient, RedisConnection, as_table
from eunoe.workers.stores.keys import closed_logs_key, generations_key, pointer_key

FIRST = "v1"
"""The generation of a deployment that never rebuilt anything."""


class GenerationState(StrEnum):
    """How far the making of a generation is."""

    BUILDING = "building"
    """A rebuild is at work, or was stopped in the middle: continue it."""
    PARTIAL = "partial"
    """Some conversations, some stages, or up to a time only: to look at, never to be promoted."""
    BUILT = "built"
    """Whole up to where the log ended then; its workers go on from there."""
    MOVING = "moving"
    """Asks are being handed over to it in a log with other partitions: go on with `eunoe topics repartition`."""


class Generation(Value):
    """A generation that a rebuild made."""

    name: str
    state: GenerationState
    made_at: Time
    source: str
    """The generation that was live when it was begun."""
    changes: dict[str, str] = Field(default_factory=dict)
    """The settings in which it differs, as given: ``link.j`` → ``5``; every process of it takes them from here."""
    plan: dict[str, str] = Field(default_factory=dict)
    """What was left out, in words that continue the same rebuild."""
    log: int = Field(default=0, ge=0)
    """The number of the log that it reads."""


class ClosedLog(Value):
    """Where a log ends for good."""

    ends: dict[int, int]
    """Partition → the first offset that is refused."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Who answers."""

    first: str | None = None
    """The generation that answers before any was promoted; None: no worker ever ran."""
    live: str | None = None
    """The generation that readers see."""


class Generations(Protocol):
    """The book of generations. Every method raises `Unavailable` when the store is."""

    async def pointer(self) -> Pointer:
        """Who answers now."""
        ...

    async def begin(self, name: str) -> Pointer:
        """Where no generation was ever live, ``name`` is from now on; returns who answers."""
        ...

    async def promote(self, name: str) -> None:
        """Let readers see another generation."""
        ...

    async def find(self, name: str) -> Generation | None:
        """What a rebuild wrote of a generation; None where none made it."""
        ...

    async def all(self) -> list[Generation]:
        """All that rebuilds made, by name."""
        ...

    async def write(self, generation: Generation) -> None:
        """Enter a generation, or what has become of it."""
        ...

    async def forget(self, name: str) -> None:
        """Strike out a generation."""
        ...

    async def close_log(self, log: int, ends: Mapping[int, int]) -> None:
        """Say that a log is left: what stands at these offsets of its partitions, or behind, is refused."""
        ...

    async def closed_log(self, log: int) -> dict[int, int] | None:
        """Partition → the first offset that is refused; None for a log that is not left."""
        ...


class RedisGenerations:
    """`Generations` in two hashes."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._pointer = pointer_key(prefix)
        self._book = generations_key(prefix)
        self._closed = closed_logs_key(prefix)

    async def pointer(self) -> Pointer:
        """Who answers now."""
        return Pointer(**as_table(await self._redis.command("HGETALL", self._pointer)))

    async def begin(self, name: str) -> Pointer:
        """Where no generation was ever live, ``name`` is from now on."""
        await self._redis.command("HSETNX", self._pointer, "first", name)
        await self._redis.command("HSETNX", self._pointer, "live", name)
        return await self.pointer()

    async def promote(self, name: str) -> None:
        """Let readers see another generation."""
        await self._redis.command("HSET", self._pointer, "live", name)

    async def find(self, name: str) -> Generation | None:
        """What a rebuild wrote of a generation."""
        found = await self._redis.command("HGET", self._book, name)
        return None if found is None else Generation.from_json(found)

    async def all(self) -> list[Generation]:
        """All that rebuilds made, by name."""
        found = as_table(await self._redis.command("HGETALL", self._book))
        return [Generation.from_json(text) for _, text in sorted(found.items())]

    async def write(self, generation: Generation) -> None:
        """Enter a generation, or what has become of it."""
        await self._redis.command("HSET", self._book, generation.name, generation.model_dump_json())

    async def forget(self, name: str) -> None:
        """Strike out a generation."""
        await self._redis.command("HDEL", self._book, name)

    async def close_log(self, log: int, ends: Mapping[int, int]) -> None:
        """Say that a log is left; what was said first holds."""
        await self._redis.command("HSETNX", self._closed, str(log), ClosedLog(ends=dict(ends)).model_dump_json())

    async def closed_log(self, log: int) -> dict[int, int] | None:
        """Partition → the first offset that is refused; None for a log that is not left."""
        found = await self._redis.command("HGET", self._closed, str(log))
        return None if found is None else ClosedLog.from_json(found).ends


class MemoryGenerations:
    """The twin: kept as long as this object."""

    def __init__(self) -> None:
        self._pointer = Pointer()
        self._book: dict[str, Generation] = {}
        self._closed: dict[int, dict[int, int]] = {}

    async def pointer(self) -> Pointer:
        """Who answers now."""
        return self._pointer

    async def begin(self, name: str) -> Pointer:
        """Where no generation was ever live, ``name`` is from now on."""
        self._pointer = Pointer(self._pointer.first or name, self._pointer.live or name)
        return self._pointer

    async def promote(self, name: str) -> None:
        """Let readers see another generation."""
        self._pointer = replace(self._pointer, live=name)

    async def find(self, name: str) -> Generation | None:
        """What a rebuild wrote of a generation."""
        return self._book.get(name)

    async def all(self) -> list[Generation]:
        """All that rebuilds made, by name."""
        return [self._book[name] for name in sorted(self._book)]

    async def write(self, generation: Generation) -> None:
        """Enter a generation, or what has become of it."""
        self._book[generation.name] = generation

    async def forget(self, name: str) -> None:
        """Strike out a generation."""
        self._book.pop(name, None)

    async def close_log(self, log: int, ends: Mapping[int, int]) -> None:
        """Say that a log is left; what was said first holds."""
        self._closed.setdefault(log, dict(ends))

    async def closed_log(self, log: int) -> dict[int, int] | None:
        """Partition → the first offset that is refused; None for a log that is not left."""
        return self._closed.get(log)
