"""`LiveStates` and `Notes` on Redis."""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from eunoe.deploy.clients.live_settings import settings_in
from eunoe.deploy.clients.shared import state_store, store_keys
from eunoe.deploy.gateway.ports import LiveState
from eunoe.deploy.gateway.redis_absence import RedisAbsence
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.schemas.ports import StateStore
from eunoe.streams.topics import TopicNames
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.positions.redis_log_positions import RedisActivityList
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.generations import Listed, RedisGenerations, listed
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, as_text
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest

POINTER_S: Final = 0.5
"""Time for which the pointer to the live generation is believed."""


@dataclass(slots=True)
class RedisLiveStates:
    """The live generation, by the pointer in Redis."""

    settings: Settings
    redis: RedisClient
    moved: Callable[[TopicNames], Awaitable[None]]
    """Called with the names of another generation or log, before it is used."""
    qdrant: QdrantRest | None = None
    absence: RedisAbsence = field(default_factory=RedisAbsence)
    data_keys: CachedKeys | None = None
    _live: LiveState | None = None
    _names: TopicNames | None = None
    _read_at: float = float("-inf")
    _fault: EunoeError | None = None
    """Of the last look, where it failed."""
    _failed_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def live(self) -> LiveState:
        """The state of the generation that answers now; a call that waits for the look of another shares its fault."""
        if self._is_old():
            came = monotonic()
            async with self._lock:
                if self._fault is not None and self._failed_at >= came:
                    raise copy(self._fault)  # each has a traceback of its own
                if self._is_old():
                    await self._look()
        if self._live is None:
            raise Unavailable("the live generation is not known yet", "Redis")
        return self._live

    def _is_old(self) -> bool:
        return self._live is None or monotonic() - self._read_at >= POINTER_S

    async def _look(self) -> None:
        try:
            await self._refresh()
        except EunoeError as fault:  # a move waits for Kafka: not one after the other
            self._fault, self._failed_at = copy(fault), monotonic()
            raise
        self._fault = None

    async def generations(self) -> list[Listed]:
        """All generations, by name."""
        with self.absence.noticed():
            return await listed(self._book())

    async def store_of(self, generation: str) -> StateStore:
        """The state of a generation, to be read."""
        with self.absence.noticed():
            found = await settings_in(self._book(), self.settings.model_copy(update={"generation": generation}))
        return state_store(found, self.redis, store_keys(found), self.data_keys)

    def _book(self) -> RedisGenerations:
        return RedisGenerations(self.redis, self.settings.prefix)

    async def _refresh(self) -> None:
        with self.absence.noticed():
            found = await settings_in(self._book(), self.settings)
        if found.names != self._names:
            await self.moved(found.names)
            keys = store_keys(found)
            self._live = LiveState(
                generation=found.names.generation,
                epoch=found.log_epoch,
                store=state_store(found, self.redis, keys, self.data_keys),
                activity=RedisActivityList(self.redis, keys),
                index=None if self.qdrant is None else QdrantIndex(self.qdrant, keys),
                data_keys=self.data_keys,
                handled=RedisHandledPositions(self.redis, keys),
            )
            self._names = found.names
        self._read_at = monotonic()


class RedisNotes:
    """`Notes`."""

    def __init__(self, client: RedisClient, absence: RedisAbsence | None = None) -> None:
        self._redis = RedisConnection(client)
        self._absence = absence or RedisAbsence()

    async def claim(self, name: str, text: str, seconds: int) -> str | None:
        """Note a text unless there is a note; returns the one that was there."""
        with self._absence.noticed():
            if await self._redis.command("SET", name, text, "NX", "EX", seconds):
                return None
        return await self.read(name)

    async def write(self, name: str, text: str, seconds: int) -> None:
        """Note a text in place of any other."""
        with self._absence.noticed():
            await self._redis.command("SET", name, text, "EX", seconds)

    async def read(self, name: str) -> str | None:
        """The note; `None` where there is none."""
        with self._absence.noticed():
            found = await self._redis.command("GET", name)
        return None if found is None else as_text(found)
