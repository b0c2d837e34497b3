"""Limits calls in flight and reserves a share for urgent ones."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter


class InFlightLimit:
    """At most ``total`` calls at once, of which bulk work may hold ``total - reserved``.

    Urgent calls that wait go before bulk calls; within a kind the order is first come, first served.
    """

    def __init__(self, total: int, reserved: int) -> None:
        if total < 1 or not 0 <= reserved < total:
            raise ValueError(f"a limit of {total} calls cannot keep {reserved} of them free")
        self._total = total
        self._bulk = total - reserved
        self._held = 0
        self._bulk_held = 0
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}
        self._peak = 0
        self._held_s = 0.0

    @property
    def total(self) -> int:
        """The most calls at once."""
        return self._total

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
        return self._held < self._total and (urgent or self._bulk_held < self._bulk)

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
