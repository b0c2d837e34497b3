"""Shutdown of a worker: begins with a signal or a failure, and ends within one deadline."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from eunoe.deploy.exits import Exit
from eunoe.deploy.process.waits import waiting_places
from eunoe.schemas.errors import EunoeError
from eunoe.streams.cancelling import cancelled
from eunoe.workers.runner.faults import describe_fault

log = logging.getLogger(__name__)

T = TypeVar("T")

STAGES_SHARE = 0.8
"""The stages' share of the deadline. The rest is for the clients."""


class Shutdown:
    """SIGTERM or SIGINT begins the shutdown; a second one ends the process at once.

    So does the deadline, from a thread of its own. Unfinished records are not acknowledged: their next owner handles
    them.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._requested = asyncio.Event()
        self._timer: threading.Timer | None = None
        self._reason = ""

    @property
    def requested(self) -> bool:
        """Whether the shutdown was requested."""
        return self._requested.is_set()

    @property
    def stages_s(self) -> float:
        """Seconds that the stages may take to stop."""
        return self._seconds * STAGES_SHARE

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals during the body; the deadline ends with it."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
            if self._timer is not None:
                self._timer.cancel()

    def _on_signal(self) -> None:
        if self._requested.is_set():
            _exit(Exit.INTERRUPTED, "second signal to stop: ending at once")
        self._requested.set()
        self.begin()

    def begin(self, code: Exit = Exit.OVERDUE, fault: Exception | None = None) -> None:
        """Start the deadline, unless it runs already; when it expires, the process ends with ``code``.

        ``fault``: what ends the process, for the log: nobody reports it after the deadline.
        """
        if self._timer is not None:
            return
        if fault is not None:
            self._reason = f" after {fault if isinstance(fault, EunoeError) else describe_fault(fault)}"
        self._timer = threading.Timer(self._seconds, self._expire, (code, asyncio.get_running_loop()))
        self._timer.daemon = True
        self._timer.start()

    def _expire(self, code: Exit, loop: asyncio.AbstractEventLoop) -> None:
        try:  # another thread runs the loop meanwhile; whatever comes of that, the process ends
            for line in waiting_places(asyncio.all_tasks(loop)):
                log.error("not stopped: %s", line)
        except Exception as fault:
            log.warning("what still waits could not be read: %r", fault)
        late = f"not stopped within {self._seconds:.0f} s{self._reason}"
        _exit(code, f"{late}: ending now; unfinished records are for their next owner")

    async def before(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of ``work``; `None`, with the work cancelled, when the shutdown is requested first."""
        task = asyncio.ensure_future(work)
        await self._first([task])
        if self.requested and not task.done():
            await cancelled(task)
            return None
        return task.result()

    async def or_failure(self, failures: Sequence[Coroutine[Any, Any, BaseException]]) -> None:
        """Return when the shutdown is requested; raise the first failure."""
        waits = [asyncio.create_task(failure) for failure in failures]
        try:
            await self._first(waits)
            if not self.requested:
                raise next(wait for wait in waits if wait.done()).result()
        finally:
            for wait in waits:
                wait.cancel()

    async def _first(self, tasks: "Sequence[asyncio.Future[Any]]") -> None:
        requested = asyncio.create_task(self._requested.wait())
        try:
            await asyncio.wait({requested, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requested.cancel()


def _exit(code: Exit, why: str) -> None:
    log.critical("%s (exit code %d)", why, code)
    logging.shutdown()
    os._exit(code)
