"""Retry policy for calls to an endpoint: attempts and pauses."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from eunoe.schemas.errors import Unavailable

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential pauses with jitter; a server's Retry-After takes precedence."""

    attempts: int = 6
    """Attempts in total."""
    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 20.0
    jitter: float = 0.5
    """The random share of a pause, 0 to 1."""
    max_retry_after_s: float = 60.0
    """A server that asks for a longer wait than this counts as unavailable."""

    def pause(self, attempt: int, retry_after_s: float | None, chance: float) -> float | None:
        """Seconds to wait after attempt number ``attempt`` (from 1); `None` means to give up.

        ``retry_after_s``: the server's Retry-After in seconds. ``chance``: a random number in [0, 1).
        """
        if attempt >= self.attempts or (retry_after_s is not None and retry_after_s > self.max_retry_after_s):
            return None
        grown = min(self.longest_s, self.first_s * self.factor ** min(attempt - 1, 64))
        jittered = grown * (1 - self.jitter * chance)
        # added to Retry-After, never subtracted: callers with the same Retry-After must not return all at once
        return jittered if retry_after_s is None else retry_after_s + self.first_s * self.jitter * chance


@dataclass(frozen=True, slots=True)
class RetryEnvironment:
    """Sleep, randomness and clock of the retries; tests replace them."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time
    """Returns seconds since the epoch; Retry-After may be a date."""


class Transient(Exception):
    """A failure that a retry may overcome; it never leaves this package, but becomes `Unavailable`."""

    def __init__(self, message: str, retry_after_s: float | None = None, *, may_be_of_request: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.may_be_of_request = may_be_of_request
        """Whether the server was there and failed, so that this request alone may be the cause."""


class NoAnswerInTime(Transient):
    """The server was reached and was still at work when the time limit of a request was over."""

    def __init__(self, server: str, limit_s: float) -> None:
        super().__init__(f"{server} did not answer in {limit_s:g} s")


class RequestFailing(Unavailable):
    """The server was there and failed at a request, at the last of all attempts, too."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """Repeats an attempt until it succeeds or the policy gives up."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    environment: RetryEnvironment = field(default_factory=RetryEnvironment)
    server: str = "the model's endpoint"
    """The server's name in the fault."""

    async def run(self, attempt: Callable[[], Awaitable[T]], on_retry: Callable[[], None]) -> T:
        """The attempt's result; raises `Unavailable` with the last failure when the policy gives up."""
        number = 1
        while True:
            try:
                return await attempt()
            except Transient as fault:
                pause = self.policy.pause(number, fault.retry_after_s, self.environment.chance())
                if pause is None:
                    message = f"{fault.message} (attempt {number} of {self.policy.attempts})"
                    raise (RequestFailing if fault.may_be_of_request else Unavailable)(message, self.server) from None
                if number == 1:
                    _say(self.server, fault.message)
            number += 1
            on_retry()
            await self.environment.sleep(pause)


_QUIET_S = 60.0
_said_at: dict[str, float] = {}
"""Server → the time of the last message about it: one endpoint or two, so it stays small."""


def _say(server: str, message: str) -> None:
    """Log a first failure at once, and the same server again after a minute."""
    now = time.monotonic()
    if now - _said_at.get(server, -_QUIET_S) >= _QUIET_S:
        _said_at[server] = now
        log.warning("%s; trying again", message)
