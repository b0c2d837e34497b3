"""The generations in which is erased, with clients that are opened once for the conversations of a round."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from eunoe.deploy.clients.bootstrap import Clients, open_clients
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.generations.erase.side_by_side import SideBySide
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repairer
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.admin import check_partitions
from eunoe.streams.reading_on import kept_reader
from eunoe.workers.stores.records.generations import Generation, GenerationState
from eunoe.workers.stores.redis.connection import RedisClient


class NotNow(Refused):
    """A generation is being made, or lacks topics: the same request can be carried out later."""


@dataclass(frozen=True, slots=True)
class Site:
    """The clients of a generation, and the log that it reads."""

    settings: Settings
    clients: Clients
    log: HandledLog

    def repairer(self, part: ErasedPart | None) -> Repairer:
        """A repairer that leaves out what is erased."""

        async def erased() -> Mapping[str, ErasedPart]:
            return {} if part is None else {part.key: part}

        return Repairer(
            self.settings, self.clients, self.clients.transplants, self.log, erased, fences_intake=True, tells=False
        )


@dataclass(slots=True)
class Sites:
    """Opens each generation when it is needed first. ``closing`` closes them all."""

    closing: AsyncExitStack
    side_by_side: SideBySide = field(default_factory=SideBySide)
    _opened: dict[str, Site] = field(default_factory=dict)
    _partitions: dict[str, int] = field(default_factory=dict)
    _redis: RedisClient | None = None
    _next: list[str] = field(default_factory=list)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, settings: Settings) -> Site:
        """A generation. Raises `NotNow` where it lacks topics, `Refused`, `Unavailable`."""
        name, partitions = settings.names.generation, await self.partitions(settings)
        async with self._opening:
            if name not in self._opened:
                clients = await self.closing.enter_async_context(open_clients(settings))
                reader = await self.closing.enter_async_context(kept_reader(settings.kafka_settings, settings.names))
                log = HandledLog(settings, clients, partitions, reader)
                log.expect(self._next)
                self._opened[name] = Site(settings, clients, log)
            return self._opened[name]

    async def partitions(self, settings: Settings) -> int:
        """The partitions of a generation: none is made, dropped or moved while an eraser has its right to erase.

        Raises `NotNow` where topics are missing: those of a generation that is not live may have been deleted.
        """
        name = settings.names.generation
        async with self._opening:
            if name not in self._partitions:
                self._partitions[name] = await _partitions(settings)
            return self._partitions[name]

    async def redis(self, settings: Settings) -> RedisClient:
        """The Redis of all generations. Raises `Refused`."""
        async with self._opening:
            if self._redis is None:
                self._redis = await self.closing.enter_async_context(open_redis(settings))
            return self._redis

    def expect(self, keys: Iterable[str]) -> None:
        """Say which conversations come next, in their order: the log is read for them together."""
        self._next = list(keys)
        for site in self._opened.values():
            site.log.expect(self._next)

    def put_down(self, key: str) -> None:
        """Say that a conversation is not worked on for now: what was read of it may be let go of."""
        for site in self._opened.values():
            site.log.put_down(key)

    def release(self, key: str) -> None:
        """Let go of what was read of a conversation."""
        for site in self._opened.values():
            site.log.release(key)


async def _partitions(settings: Settings) -> int:
    try:
        return await check_partitions(settings.kafka_settings, settings.names)
    except Unavailable:  # a broker that refuses the login is Refused, too, and lacks no topics
        raise
    except Refused as fault:
        name = settings.names.generation
        why = str(fault).removesuffix("; run `eunoe topics create`")
        raise NotNow(
            f"generation {name}: {why}; make them by `EUNOE_GENERATION={name} eunoe topics create`, or, if it is not"
            f" live, run `eunoe drop {name}`; then erase again"
        ) from None


def check_whole(row: Generation) -> None:
    """Raise `NotNow` where a generation is being made."""
    what = {
        GenerationState.BUILDING: f"is being built: finish that, or run `eunoe drop {row.name}`",
        GenerationState.MOVING: "is taking over a log with other partitions: finish `eunoe topics repartition`",
        GenerationState.PARTIAL: f"holds a part of the memory: run `eunoe drop {row.name}`",
    }.get(row.state)
    if what is not None:
        raise NotNow(f"generation {row.name} {what}; then `eunoe erase` again (`eunoe erase replay` if it had begun)")
