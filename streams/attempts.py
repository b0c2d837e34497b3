"""Attempts of a request: sent again while that may help, few at once, within a time that begins when it is sent."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from eunoe.schemas.errors import Unavailable

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0


class TryAgain(Exception):
    """A request may succeed if it is sent again; ``fault`` is raised where it is not."""

    def __init__(self, fault: Unavailable, after_s: float | None = None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.after_s = after_s
        """Seconds to wait, where the server named them."""


async def attempted(
    attempt: Callable[[], Awaitable[T]],
    timeout: float,
    turns: asyncio.Semaphore | None = None,
    *,
    where: str,
    patient: bool = True,
) -> T:
    """The result of the first attempt that does not raise `TryAgain`.

    Pauses as the server says, else from 0.1 s on, doubled up to 2 s; unless ``patient``, there is one attempt. Each
    attempt takes its turn of ``turns``; to wait for it costs none of the ``timeout`` seconds, after which `Unavailable`
    is raised. ``where``: the server's address.
    """
    loop = asyncio.get_running_loop()
    pause, last = _FIRST_PAUSE_S, None
    try:
        async with asyncio.timeout(timeout) as limit:
            while True:
                try:
                    async with _turn(turns, limit):
                        return await attempt()
                except TryAgain as again:
                    last = again.fault
                    wait_s = again.after_s
                if wait_s is None:
                    wait_s = pause * random.uniform(0.5, 1)  # noqa: S311 - so that clients do not come all at once
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                if not patient or loop.time() + wait_s >= (limit.when() or 0.0):
                    raise last
                await asyncio.sleep(wait_s)
    except TimeoutError:
        raise last or Unavailable(f"{where}: no answer within {timeout:g} s", where) from None


@asynccontextmanager
async def _turn(turns: asyncio.Semaphore | None, limit: asyncio.Timeout) -> AsyncIterator[None]:
    """Hold a turn during the block; ``limit`` stands still until it comes."""
    if turns is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left_s = (limit.when() or 0.0) - loop.time()
    limit.reschedule(None)
    async with turns:
        limit.reschedule(loop.time() + left_s)
        yield
