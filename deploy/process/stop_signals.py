"""Signals that stop `eunoe up`: the first in order, the second at once but with nothing lost, the third kills."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from eunoe.deploy.exits import Exit

AT_ONCE: Final = (
    "ending at once: nothing is lost; what the stages have not done, and memory, is done again at the next start"
)
KILLED: Final = "killed: what clients produced within the last tenth of a second may be lost"
STARTING: Final = "stopping: the next start begins again"


class StopSignals:
    """The signals to one run of `eunoe up`, in the task that makes it; use it from that task."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._task = asyncio.current_task()
        self._count = 0
        self.asked = asyncio.Event()
        self.is_up = False
        """Whether all is started, so that there is something to stop in order."""
        self.kills: list[Callable[[], None]] = []
        """Each kills a process that would take its time to end, and is started again by the next start."""

    @property
    def hurried(self) -> bool:
        """Whether a second signal came."""
        return self._count > 1

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM during the body, and end it where they cancel its task."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.take)
        try:
            yield
        except asyncio.CancelledError:
            if not self._count:
                raise
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def take(self) -> None:
        """A signal has come."""
        self._count += 1
        self.asked.set()
        if self._count > 2:
            self._say(KILLED)
            os._exit(Exit.INTERRUPTED)
        elif self.hurried:
            self._say(AT_ONCE)
            for kill in self.kills:
                kill()
        elif not self.is_up:
            self._say(STARTING)
        if self._task is not None and (self.hurried or not self.is_up):
            self._task.cancel()
