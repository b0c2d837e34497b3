"""Registry of generations of the memory: their settings and state, and the live one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_urlsafe
from typing import Any

from pydantic import Field

from eunoe.schemas.base import Time, Value
from eunoe.schemas.versions import waiting_for_newer
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_table
from eunoe.workers.stores.redis.keys import Keys, announcements_key, closed_logs_key, generations_key, pointer_key

FIRST = "v1"
"""The generation of a deployment that has never been rebuilt."""


class GenerationState(StrEnum):
    """The state of a generation that a rebuild makes."""

    BUILDING = "building"
    """A rebuild runs, or was interrupted and can be continued."""
    PARTIAL = "partial"
    """Holds some conversations or stages only, or a state of the past; for inspection, never promoted."""
    BUILT = "built"
    """Complete up to the end of the log at that time; its workers continue from there."""
    MOVING = "moving"
    """Taking over from another log with other partitions; continue with `eunoe topics repartition`."""


class Generation(Value):
    """A generation that a rebuild made."""

    name: str
    state: GenerationState
    made_at: Time
    source: str
    """The generation that was live when the rebuild began."""
    changes: dict[str, str] = Field(default_factory=dict)
    """The settings in which it differs, as given: ``link.j`` → ``5``; all its processes read them from here."""
    plan: dict[str, str] = Field(default_factory=dict)
    """The rebuild's options, with which it can be continued."""
    log: int = Field(default=0, ge=0)
    """The number of the log that it reads."""


class ClosedLog(Value):
    """The ends of a retired log."""

    ends: dict[int, int]
    """Partition → the first offset that is refused."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The generations that answer."""

    first: str | None = None
    """The generation that answers before the first promotion; `None`: no worker ever ran, or it was dropped."""
    live: str | None = None
    """The generation that readers use."""
    promoting: str | None = None
    """The generation whose promotion has begun and not ended: the log may name it already."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A generation as lists show it."""

    name: str
    is_live: bool
    made: Generation | None
    """`None` where no rebuild built it: the first generation, derived as events came in."""
    is_promoting: bool = False
    """Whether its promotion has begun and not ended: asks may be its own already."""


class RedisGenerations:
    """Registry of generations, in three hashes. Every method raises `Unavailable` while Redis is."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._pointer = pointer_key(prefix)
        self._generations = generations_key(prefix)
        self._closed = closed_logs_key(prefix)
        self._announced = announcements_key(prefix)

    async def pointer(self) -> Pointer:
        """The generations that answer now."""
        return Pointer(**as_table(await self._redis.command("HGETALL", self._pointer)))

    async def begin(self, name: str) -> Pointer:
        """Make ``name`` live unless a generation already is; returns the pointer."""
        await self._redis.command("HSETNX", self._pointer, "first", name)
        await self._redis.command("HSETNX", self._pointer, "live", name)
        return await self.pointer()

    async def begin_promotion(self, name: str) -> None:
        """Note that the log is about to name ``name``; the note stays until `promote`, and no other replaces it."""
        await self._redis.command("HSETNX", self._pointer, "promoting", name)

    async def promote(self, name: str) -> None:
        """Make another generation live, and end the promotion that had begun."""
        await self._redis.command("HSET", self._pointer, "live", name)
        await self._redis.command("HDEL", self._pointer, "promoting")

    async def announce(self, name: str) -> str:
        """A new nonce for the records that promote ``name``: intake believes no others."""
        nonce = token_urlsafe(24)
        await self._redis.command("HSET", self._announced, nonce, name)
        return nonce

    async def find(self, name: str) -> Generation | None:
        """The record of a generation; `None` where no rebuild made it.

        Raises `NewerVersion` for one that a newer version wrote: that generation is for its processes.
        """
        found = await self._redis.command("HGET", self._generations, name)
        return None if found is None else _read(name, found)

    async def all(self) -> list[Generation]:
        """All generations that rebuilds made, by name.

        Of a record that a newer version wrote, what is known here: processes of other generations go on beside it.
        Raises `NewerVersion` where that is not enough.
        """
        found = as_table(await self._redis.command("HGETALL", self._generations))
        return [_read_known(name, text) for name, text in sorted(found.items())]

    async def write(self, generation: Generation) -> None:
        """Record a generation or its new state."""
        await self._redis.command("HSET", self._generations, generation.name, generation.model_dump_json())

    async def forget(self, name: str) -> None:
        """Delete the record of a generation, which is not live; the first one has only its place in the pointer."""
        await self._redis.command("HDEL", self._generations, name)
        if (await self.pointer()).first == name:
            await self._redis.command("HDEL", self._pointer, "first")

    async def close_log(self, log: int, ends: Mapping[int, int]) -> None:
        """Retire a log: records at or after these offsets of its partitions are refused."""
        await self._redis.command("HSETNX", self._closed, str(log), ClosedLog(ends=dict(ends)).model_dump_json())

    async def closed_log(self, log: int) -> dict[int, int] | None:
        """Partition → the first offset that is refused; `None` for a log that is not retired."""
        found = await self._redis.command("HGET", self._closed, str(log))
        return None if found is None else ClosedLog.from_json(found).ends


async def listed(registry: RedisGenerations) -> list[Listed]:
    """The live generation, the first one and all rebuilt ones, by name; raises `Unavailable`."""
    pointer, made = await registry.pointer(), {one.name: one for one in await registry.all()}
    live = pointer.live or FIRST
    names = sorted({live, pointer.first or live, *made})
    return [Listed(name, name == live, made.get(name), name == pointer.promoting != live) for name in names]


def _read(name: str, text: str | bytes) -> Generation:
    with waiting_for_newer(f"a newer version of eunoe made generation {name}: update this process"):
        return Generation.from_json(text)


def _read_known(name: str, text: str | bytes) -> Generation:
    """The generation of a record, without the fields that this version does not know."""
    document = json.loads(text)
    return _read(name, json.dumps({field: document[field] for field in Generation.model_fields if field in document}))


async def forget_generation(client: RedisClient, keys: Keys, *, batch: int = 500) -> int:
    """Delete every key of a generation, ``batch`` at a time, and return their number.

    Only for a generation without workers: keys written meanwhile may stay. Raises `Unavailable`.
    """
    redis = RedisConnection(client)
    removed = 0
    with redis.translating_faults():
        found: list[Any] = []
        async for key in client.scan_iter(match=keys.generation_pattern(), count=batch):
            found.append(key)
            if len(found) >= batch:
                removed += await client.unlink(*found)
                found.clear()
        if found:
            removed += await client.unlink(*found)
    return removed
