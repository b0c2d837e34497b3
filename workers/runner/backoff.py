"""Retry with backoff while a server is away; rate-limited logs for all that wait for it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from eunoe.schemas.errors import Unavailable
from eunoe.streams.record import Lease

log = logging.getLogger(__name__)

T = TypeVar("T")

Waiting = Callable[[Unavailable], AbstractContextManager[object]]
"""Gives the context around a wait for a server that is away."""

FIRST_LOG_INTERVAL_S = 10.0
LONGEST_LOG_INTERVAL_S = 600.0


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
    """One server's outage."""

    since: float = 0.0
    waiting: int = 0
    logged: bool = False
    """Whether the outage was logged, and its end not yet."""
    log_interval_s: float = FIRST_LOG_INTERVAL_S
    next_log_at: float = 0.0
    """The earliest time of the next log line, by the clock."""


class Outages:
    """The servers that do not answer, for all records of a process: hundreds that wait share one log line."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._servers: dict[str, _Outage] = {}
        self._waits: Counter[str] = Counter()

    @property
    def waits(self) -> Mapping[str, int]:
        """Waits begun since the process started, by server."""
        return self._waits

    def waiting(self) -> dict[str, int]:
        """Current waits by server, without the servers that answer."""
        return {server: outage.waiting for server, outage in self._servers.items() if outage.waiting}

    def expect(self, *servers: str) -> None:
        """Name servers before the first wait for them, so that their counters begin at 0."""
        for server in servers:
            self._waits[server] += 0

    def enter(self, server: str) -> None:
        """Count a wait for a server."""
        self._waits[server] += 1
        outage = self._servers.setdefault(server, _Outage())
        outage.waiting += 1
        if outage.waiting == 1:
            outage.since = self._clock()

    def report(self, server: str, fault: Unavailable) -> None:
        """Log that a server is away: the first time, then at growing intervals.

        Short outages that follow each other are logged less and less. One that lasts is logged all the same: the last
        line says that the server answers again.
        """
        outage, now = self._servers[server], self._clock()
        lasts = not outage.logged and now - outage.since >= FIRST_LOG_INTERVAL_S
        if now < outage.next_log_at and not lasts:
            return
        if now - outage.next_log_at > LONGEST_LOG_INTERVAL_S:  # the last outage is long past
            outage.log_interval_s = FIRST_LOG_INTERVAL_S
        waited = now - outage.since
        log.warning("waiting for %s: %d waiting, %.0f s so far: %s", server, outage.waiting, waited, fault)
        outage.logged = True
        outage.next_log_at = now + outage.log_interval_s
        outage.log_interval_s = min(LONGEST_LOG_INTERVAL_S, outage.log_interval_s * 2)

    def leave(self, server: str, *, answered: bool) -> None:
        """End a wait; the last one that was answered logs the end of the outage."""
        outage = self._servers[server]
        outage.waiting -= 1
        if answered and outage.logged and not outage.waiting:
            outage.logged = False
            log.warning("%s answers again, after %.0f s", server, self._clock() - outage.since)

    async def retry(self, work: Callable[[], Awaitable[T]], lease: Lease, backoff: Backoff, limit_s: float) -> T:
        """Do ``work``, and repeat it while its server is away; raises what `RetryLease.wait` raises."""
        with self.retrying(lease, backoff, limit_s) as waits:
            return await waits.repeat(lambda _: work())

    @contextmanager
    def retrying(self, lease: Lease, backoff: Backoff, limit_s: float) -> Iterator["RetryLease"]:
        """The retries of one record, while the body handles it; waits for a server at most ``limit_s`` seconds."""
        waits = RetryLease(self, lease, backoff, limit_s, self._clock)
        answered = False
        try:
            yield waits
            answered = True
        finally:
            waits.end(answered=answered)


class Absence:
    """One wait for a server that repeated looks find away; for looks that do not wait themselves."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._server: str | None = None

    def note(self, fault: Unavailable) -> None:
        """Note a look that failed: its server counts as waited for from now on."""
        if fault.server != self._server:
            self.end()
            self._server = fault.server
            self._outages.enter(fault.server)
        self._outages.report(fault.server, fault)

    def end(self) -> None:
        """Note a look that was answered."""
        if self._server is not None:
            self._outages.leave(self._server, answered=True)
            self._server = None


class UnboundedLease:
    """A lease that is never revoked, for work on no record."""

    revoked = False

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


class RetryLease:
    """Waits with backoff while one record's server is away; raises the fault when the limit is reached.

    It is the record's lease too: a pause for another reason shows that the server has answered.
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
        """Whether a rebalance or a shutdown has begun."""
        return self._lease.revoked

    async def pause(self, seconds: float) -> None:
        """Sleep for a reason of the stage's own; raises `Revoked` as soon as the lease is revoked."""
        self.end(answered=True)
        await self._lease.pause(seconds)

    async def repeat(
        self, work: "Callable[[RetryLease], Awaitable[T]]", waiting: Waiting = lambda _: nullcontext()
    ) -> T:
        """Do ``work``, and repeat it while a server is away; raises what `wait` raises. ``waiting`` is around each."""
        while True:
            try:
                return await work(self)
            except Unavailable as fault:
                with waiting(fault):
                    await self.wait(fault)

    async def wait(self, fault: Unavailable) -> None:
        """Pause before the next attempt; raises ``fault`` when the limit is reached, `Revoked` on a rebalance."""
        if fault.server != self._server:
            self.end(answered=True)
            self._begin(fault.server)
        self._attempt += 1
        waited = self._clock() - self._since
        if waited >= self._limit_s:
            log.error("giving up on %s after %.0f s: %s", fault.server, waited, fault)
            raise fault
        self._outages.report(fault.server, fault)
        await self._lease.pause(self._backoff.pause(self._attempt))

    def _begin(self, server: str) -> None:
        self._server, self._since, self._attempt = server, self._clock(), 0
        self._outages.enter(server)

    def end(self, *, answered: bool) -> None:
        """End the current wait, if there is one."""
        if self._server is not None:
            self._outages.leave(self._server, answered=answered)
            self._server = None
