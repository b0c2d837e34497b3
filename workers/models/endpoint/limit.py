"""Limits calls in flight, to fewer where an endpoint answers late, and reserves a share for urgent ones."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from eunoe.workers.models.endpoint.pace import Pace


class InFlightLimit:
    """At most ``total`` calls at once, of which ``reserved`` are for urgent ones.

    While the endpoint answers late the limit is lower; then half of it at most is for urgent calls.

    Urgent calls that wait go before bulk calls; within a kind the order is first come, first served.
    """

    def __init__(self, total: int, reserved: int) -> None:
        if total < 1 or not 0 <= reserved < total:
            raise ValueError(f"a limit of {total} calls cannot keep {reserved} of them free")
        self._total = total
        self._pace = Pace(total)
        self._reserved = reserved
        self._held = 0
        self._bulk_held = 0
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}
        self._peak = 0
        self._held_s = 0.0

    @property
    def total(self) -> int:
        """The most calls at once, now."""
        return self._pace.allowed

    @property
    def held(self) -> int:
        """Calls that are in flight now."""
        return self._held

    @property
    def peak(self) -> int:
        """The largest number of calls that were in flight at once."""
        return self._peak

    @property
    def held_s(self) -> float:
        """Seconds in flight, summed over all calls; divided by elapsed seconds, the mean number in flight."""
        return self._held_s

    def answered(self, started: float, limit_s: float) -> None:
        """Note that a call was answered; times as of ``perf_counter``, in seconds."""
        self._pace.answered(started, perf_counter(), limit_s)
        self._wake()

    def timed_out(self, started: float) -> bool:
        """Note that a call got no answer in its time; returns whether it waited for others at the endpoint."""
        return self._pace.timed_out(started, perf_counter(), self._held)

    @asynccontextmanager
    async def slot(self, *, urgent: bool = False) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the block."""
        await self._acquire(urgent)
        taken = perf_counter()
        try:
            yield
        finally:
            self._held_s += perf_counter() - taken
            self._release(urgent)

    def _free(self, urgent: bool) -> bool:
        allowed = self._pace.allowed
        reserved = self._reserved if allowed == self._total else min(self._reserved, allowed // 2)
        return self._held < allowed and (urgent or self._bulk_held < allowed - reserved)

    async def _acquire(self, urgent: bool) -> None:
        if self._free(urgent) and not self._waiting[urgent]:
            self._hold(urgent)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[urgent].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was granted while the call was cancelled
                self._release(urgent)
            raise

    def _hold(self, urgent: bool) -> None:
        self._held += 1
        self._bulk_held += not urgent
        self._peak = max(self._peak, self._held)

    def _release(self, urgent: bool) -> None:
        self._held -= 1
        self._bulk_held -= not urgent
        self._wake()

    def _wake(self) -> None:
        for urgent in (True, False):
            queue = self._waiting[urgent]
            while queue and self._free(urgent):
                turn = queue.popleft()
                if not turn.done():
                    self._hold(urgent)
                    turn.set_result(None)
