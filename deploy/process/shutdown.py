"""How a worker ends: told by signals, and within one deadline whatever happens."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from eunoe.deploy.exits import Exit

log = logging.getLogger(__name__)

T = TypeVar("T")

STAGES_SHARE = 0.8
"""Of the deadline: for the stages. The rest is for the clients."""


class Shutdown:
    """SIGTERM or SIGINT begins the end, a second one ends at once; so does the deadline, from a thread of its own.

    What was not finished then is not acknowledged: its next owner does it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told = asyncio.Event()
        self._timer: threading.Timer | None = None

    @property
    def told(self) -> bool:
        """Whether somebody asked for the end."""
        return self._told.is_set()

    @property
    def stages_s(self) -> float:
        """Seconds that the stages may take."""
        return self._seconds * STAGES_SHARE

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to signals beside the body; the deadline is over when the body is."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._tell)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
            if self._timer is not None:
                self._timer.cancel()

    def _tell(self) -> None:
        if self._told.is_set():
            _leave(Exit.INTERRUPTED, "told twice to stop: ending at once")
        self._told.set()
        self.begin()

    def begin(self, code: Exit = Exit.OVERDUE) -> None:
        """The deadline runs from now on, if it does not run yet; at its end the process ends with ``code``."""
        if self._timer is not None:
            return
        told = f"not stopped within {self._seconds:.0f} s: ending now; what was unfinished is for its next owner"
        self._timer = threading.Timer(self._seconds, _leave, (code, told))
        self._timer.daemon = True
        self._timer.start()

    async def before(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What ``work`` gives; None, with the work cancelled, when the end was asked for first."""
        task = asyncio.ensure_future(work)
        await self._first([task])
        if self.told and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return None
        return task.result()

    async def or_failure(self, failures: Sequence[Coroutine[Any, Any, BaseException]]) -> None:
        """Return when the end is asked for; raise the first failure."""
        waits = [asyncio.create_task(failure) for failure in failures]
        try:
            await self._first(waits)
            if not self.told:
                raise next(wait for wait in waits if wait.done()).result()
        finally:
            for wait in waits:
                wait.cancel()

    async def _first(self, tasks: "Sequence[asyncio.Future[Any]]") -> None:
        told = asyncio.create_task(self._told.wait())
        try:
            await asyncio.wait({told, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()


def _leave(code: Exit, why: str) -> None:
    log.critical("%s (exit code %d)", why, code)
    logging.shutdown()
    os._exit(code)
