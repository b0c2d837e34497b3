"""Rate limits of keys: the generic cell rate algorithm (GCRA), in Redis, in the process where Redis is away."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from time import monotonic
from typing import Final, Protocol

from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.keys import rate_key

log = logging.getLogger(__name__)

_KNOWN: Final = 10_000
AWAY_S: Final = 2.0
"""Time for which a Redis that was away is not asked again: each request would wait for it."""


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


class NoLimiter:
    """`Limiter` that admits everything, for requests that were counted before."""

    async def wait_s(self, caller: str, rate: Rate, cost: float) -> float:
        """0."""
        del caller, rate, cost
        return 0.0


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


def _script() -> Script:
    source = resources.files("eunoe.deploy.gateway").joinpath("limits.lua").read_text("utf-8")
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


class RedisLimiter:
    """`Limiter` that all replicas share; while Redis is away each process limits by itself."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._prefix = prefix
        self._script = _script()
        self._fallback = ProcessLimiter()
        self._away_until = float("-inf")

    async def wait_s(self, caller: str, rate: Rate, cost: float) -> float:
        """Seconds until requests of this cost are admitted; 0 where they are admitted now, and counted."""
        if monotonic() < self._away_until:
            return await self._fallback.wait_s(caller, rate, cost)
        words: list[str | int] = [rate.interval_us, rate.tolerance_us, str(cost)]
        try:
            return int(await self._redis.run(self._script, [rate_key(self._prefix, caller)], words)) / 1_000_000
        except Unavailable as fault:
            log.debug("limits in this process: %s", fault)
            self._away_until = monotonic() + AWAY_S
            return await self._fallback.wait_s(caller, rate, cost)
