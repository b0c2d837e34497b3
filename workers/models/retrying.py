"""When to try again, and how long to wait before."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from eunoe.schemas.errors import Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential pauses with jitter; a server's own wish comes first."""

    attempts: int = 6
    """Tries in all."""
    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 20.0
    jitter: float = 0.5
    """The share of a pause that chance may take away: 0 to 1."""
    longest_wish_s: float = 60.0
    """A server that asks for more patience than this counts as away."""

    def pause(self, attempt: int, wish_s: float | None, chance: float) -> float | None:
        """Seconds to wait after attempt number ``attempt`` (from 1), or None to give up.

        ``wish_s`` is what the server asked for (Retry-After); ``chance`` is in [0, 1).
        """
        if attempt >= self.attempts or (wish_s is not None and wish_s > self.longest_wish_s):
            return None
        grown = min(self.longest_s, self.first_s * self.factor ** min(attempt - 1, 64))
        shaken = grown * (1 - self.jitter * chance)
        # chance is added to a wish, never taken: many callers who were told the same second must not come together
        return shaken if wish_s is None else wish_s + self.first_s * self.jitter * chance


@dataclass(frozen=True, slots=True)
class RetryEnvironment:
    """What retrying needs of the world; tests bring their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time
    """Seconds since the epoch: Retry-After may be a date."""


class Transient(Exception):
    """An attempt that may go better the next time; never leaves this package, it becomes `Unavailable`."""

    def __init__(self, told: str, wish_s: float | None = None) -> None:
        super().__init__(told)
        self.told = told
        self.wish_s = wish_s


@dataclass(frozen=True, slots=True)
class Retrying:
    """Runs an attempt until it works or the policy gives up."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    world: RetryEnvironment = field(default_factory=RetryEnvironment)
    server: str = "the model's endpoint"
    """What the fault names."""

    async def run(self, attempt: Callable[[], Awaitable[T]], on_retry: Callable[[], None]) -> T:
        """The attempt's result; raises `Unavailable` with the last fault when the policy gives up."""
        number = 1
        while True:
            try:
                return await attempt()
            except Transient as fault:
                pause = self.policy.pause(number, fault.wish_s, self.world.chance())
                if pause is None:
                    told = f"{fault.told} (attempt {number} of {self.policy.attempts})"
                    raise Unavailable(told, self.server) from None
            number += 1
            on_retry()
            await self.world.sleep(pause)
