"""How long to wait for a server that does not answer, and how little to say about it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from eunoe.schemas.errors import Unavailable
from eunoe.streams.record import Lease

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_QUIET_S = 10.0
LONGEST_QUIET_S = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing pauses, in seconds."""

    first: float = 0.1
    factor: float = 2.0
    longest: float = 10.0

    def pause(self, attempt: int) -> float:
        """The pause after the attempt of that number, counted from 1."""
        return float(min(self.longest, self.first * self.factor ** min(attempt - 1, 64)))


@dataclass(slots=True)
class _Outage:
    """What is known of one server's absence."""

    since: float = 0.0
    waiting: int = 0
    told: bool = False
    """That it is away was said, and not yet that it is back."""
    quiet_s: float = FIRST_QUIET_S
    speak_at: float = 0.0
    """Not before this time is anything said."""


class Outages:
    """The servers that do not answer, as all records of a process meet them: one voice for hundreds that wait."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._servers: dict[str, _Outage] = {}
        self._waits: Counter[str] = Counter()

    @property
    def waits(self) -> Mapping[str, int]:
        """How often something began to wait, by server, since the process began."""
        return self._waits

    def waiting(self) -> dict[str, int]:
        """How many wait now, by server; servers that answer are left out."""
        return {server: outage.waiting for server, outage in self._servers.items() if outage.waiting}

    def enter(self, server: str) -> None:
        """One more waits for a server."""
        self._waits[server] += 1
        outage = self._servers.setdefault(server, _Outage())
        outage.waiting += 1
        if outage.waiting == 1:
            outage.since = self._clock()

    def tell(self, server: str, fault: Unavailable) -> None:
        """Say that a server is away: the first time, and then at growing intervals."""
        outage, now = self._servers[server], self._clock()
        if now < outage.speak_at:
            return
        if now - outage.speak_at > LONGEST_QUIET_S:  # the last trouble is long past
            outage.quiet_s = FIRST_QUIET_S
        waited = now - outage.since
        log.warning("waiting for %s: %d wait, %.0f s so far: %s", server, outage.waiting, waited, fault)
        outage.told = True
        outage.speak_at = now + outage.quiet_s
        outage.quiet_s = min(LONGEST_QUIET_S, outage.quiet_s * 2)

    def leave(self, server: str, *, answered: bool) -> None:
        """One waits no longer; where all have been answered, say so."""
        outage = self._servers[server]
        outage.waiting -= 1
        if answered and outage.told and not outage.waiting:
            outage.told = False
            log.warning("%s answers again, after %.0f s", server, self._clock() - outage.since)

    async def retry(self, work: Callable[[], Awaitable[T]], lease: Lease, backoff: Backoff, limit_s: float) -> T:
        """Do ``work``, again and again while its server is away; raises what `RetryLease.wait` raises."""
        with self.patience(lease, backoff, limit_s) as patience:
            while True:
                try:
                    return await work()
                except Unavailable as fault:
                    await patience.wait(fault)

    @contextmanager
    def patience(self, lease: Lease, backoff: Backoff, limit_s: float) -> Iterator["RetryLease"]:
        """The patience of one record, while it is handled."""
        patience = RetryLease(self, lease, backoff, limit_s, self._clock)
        answered = False
        try:
            yield patience
            answered = True
        finally:
            patience.end(answered=answered)


class UnboundedLease:
    """The lease of who works on no record: nobody waits for what it holds."""

    revoked = False

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


class RetryLease:
    """Waits with backoff for one record; in the end lets the fault through.

    It is the record's lease too: who pauses for another reason has been answered.
    """

    def __init__(
        self, outages: Outages, lease: Lease, backoff: Backoff, limit_s: float, clock: Callable[[], float]
    ) -> None:
        self._outages = outages
        self._lease = lease
        self._backoff = backoff
        self._limit_s = limit_s
        self._clock = clock
        self._server: str | None = None
        self._since = 0.0
        self._attempt = 0

    @property
    def revoked(self) -> bool:
        """True: a rebalance or a shutdown has begun."""
        return self._lease.revoked

    async def pause(self, seconds: float) -> None:
        """Sleep for a reason of the stage's own; raises `GiveWay` as soon as the lease is revoked."""
        self.end(answered=True)
        await self._lease.pause(seconds)

    async def wait(self, fault: Unavailable) -> None:
        """Pause before the next attempt; raises ``fault`` when the limit is reached, `GiveWay` on a rebalance."""
        if fault.server != self._server:
            self.end(answered=True)
            self._begin(fault.server)
        self._attempt += 1
        waited = self._clock() - self._since
        if waited >= self._limit_s:
            log.error("giving up on %s after %.0f s: %s", fault.server, waited, fault)
            raise fault
        self._outages.tell(fault.server, fault)
        await self._lease.pause(self._backoff.pause(self._attempt))

    def _begin(self, server: str) -> None:
        self._server, self._since, self._attempt = server, self._clock(), 0
        self._outages.enter(server)

    def end(self, *, answered: bool) -> None:
        """Wait for nothing any more."""
        if self._server is not None:
            self._outages.leave(self._server, answered=answered)
            self._server = None
