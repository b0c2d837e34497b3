"""Rate limits of keys: the generic cell rate algorithm (GCRA), in Redis, in the process where Redis is away."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from eunoe.deploy.gateway.redis_absence import AWAY_S, RedisAbsence
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import rate_key

log = logging.getLogger(__name__)

_KNOWN: Final = 10_000
_BELIEVED_S: Final = 1.0
"""Time for which the last answer of Redis about a caller is believed."""
_LEAST_LEFT: Final = 50
"""Requests of a burst that are never admitted before Redis has counted them."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit."""

    per_second: float
    burst: int

    @property
    def interval_us(self) -> int:
        """Microseconds between two requests at the average rate."""
        return max(1, round(1_000_000 / self.per_second))

    @property
    def tolerance_us(self) -> int:
        """Microseconds by which requests may come early."""
        return self.interval_us * self.burst


class Limiter(Protocol):
    """Admits requests of callers."""

    async def wait_s(self, caller: str, rate: Rate, cost: float) -> float:
        """Seconds until requests of this cost are admitted; 0 where they are admitted now, and counted."""
        ...


@dataclass(slots=True)
class ProcessLimiter:
    """`Limiter` in this process alone."""

    clock: Callable[[], float] = monotonic
    _arrivals: OrderedDict[str, float] = field(default_factory=OrderedDict)

    async def wait_s(self, caller: str, rate: Rate, cost: float) -> float:
        """Seconds until requests of this cost are admitted; 0 where they are admitted now, and counted."""
        now = self.clock() * 1_000_000
        arrival = max(self._arrivals.get(caller, 0.0), now) + rate.interval_us * cost
        early = arrival - rate.tolerance_us - now
        if early > 0:
            return early / 1_000_000
        self._arrivals[caller] = arrival
        self._arrivals.move_to_end(caller)
        while len(self._arrivals) > _KNOWN:
            self._arrivals.popitem(last=False)
        return 0.0


@dataclass(slots=True)
class _Count:
    """The last answer of Redis about a caller, and the requests that it does not know yet."""

    left_us: float
    """The burst that was left."""
    at: float
    owed: float = 0.0
    counting: "asyncio.Task[None] | None" = None

    def is_ample(self, rate: Rate, cost: float, now: float) -> bool:
        """Whether the requests are admitted however many other replicas admit until Redis answers."""
        least = max(rate.tolerance_us / 2, _LEAST_LEFT * rate.interval_us)
        return now - self.at <= _BELIEVED_S and self.left_us - (self.owed + cost) * rate.interval_us >= least


class RedisLimiter:
    """`Limiter` that all replicas share; while Redis is away each process limits by itself.

    A caller that has used less than half of its burst does not wait for Redis: its requests are counted there while
    they are handled. So a limit is exact but for the requests of the few milliseconds that Redis takes.
    """

    def __init__(self, client: RedisClient, prefix: str, absence: RedisAbsence | None = None) -> None:
        self._redis = RedisConnection(client)
        self._absence = absence or RedisAbsence()
        self._prefix = prefix
        self._script = Script.load("limits", "eunoe.deploy.gateway")
        self._fallback = ProcessLimiter()
        self._away_until = float("-inf")
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    async def wait_s(self, caller: str, rate: Rate, cost: float) -> float:
        """Seconds until requests of this cost are admitted; 0 where they are admitted now, and counted."""
        now = monotonic()
        if now < self._away_until:
            return await self._fallback.wait_s(caller, rate, cost)
        known = self._counts.get(caller)
        if known is not None and known.is_ample(rate, cost, now):
            known.owed += cost
            if known.counting is None:
                known.counting = asyncio.create_task(self._count(caller, rate, known))
            return 0.0
        try:
            early_us = await self._ask(caller, rate, cost)
        except Unavailable as fault:
            self._leave(fault)
            return await self._fallback.wait_s(caller, rate, cost)
        self._learn(caller, early_us)
        return max(0.0, early_us / 1_000_000)

    async def _ask(self, caller: str, rate: Rate, cost: float) -> int:
        words: list[str | int] = [rate.interval_us, rate.tolerance_us, str(cost)]
        with self._absence.noticed():
            return int(await self._redis.run(self._script, [rate_key(self._prefix, caller)], words))

    async def _count(self, caller: str, rate: Rate, known: _Count) -> None:
        """Tell Redis of the requests that were admitted without it."""
        try:
            while known.owed:
                cost = known.owed
                early_us = await self._ask(caller, rate, cost)
                known.owed -= cost
                known.left_us, known.at = float(-early_us), monotonic()
        except Unavailable as fault:
            known.owed, known.at = 0.0, float("-inf")
            self._leave(fault)
        finally:
            known.counting = None

    def _learn(self, caller: str, early_us: int) -> None:
        known = self._counts.setdefault(caller, _Count(0.0, 0.0))
        known.left_us, known.at = float(-early_us), monotonic()
        self._counts.move_to_end(caller)
        while len(self._counts) > _KNOWN:
            self._counts.popitem(last=False)

    def _leave(self, fault: Unavailable) -> None:
        log.debug("limits in this process: %s", fault)
        self._away_until = monotonic() + AWAY_S
