"""Supervises worker processes as children: starts, watches, restarts and stops them."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from eunoe.deploy.exits import HOPELESS, Exit, meaning
from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.local.log_file import LogFile
from eunoe.deploy.process.forked import Forked, ForkServer, end_process, next_line, read_pipe
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.cancelling import cancelled

log = logging.getLogger(__name__)

MAX_RESTARTS = 20
"""Restarts in a row of a process that never ran for `STEADY_S`."""
STEADY_S = 60.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
RESTED = "at rest: nothing more of the log is read"
"""The line of a worker that was told to rest."""


def restart_pause(restarts: int) -> float:
    """Seconds before a restart; ``restarts`` is its number in a row, from 1."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(restarts - 1, 32))


class WorkerProcess:
    """`eunoe worker STAGE…` as a child process; forked where there is a ``forks``."""

    def __init__(
        self,
        stages: Sequence[str],
        environment: Mapping[str, str],
        log_file: Path | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self._stages = tuple(stages)
        self._command: tuple[str, ...] = ("worker", *self._stages)
        self._name = f"the worker of {', '.join(self._stages)}"
        self._environment = {**os.environ, **environment}
        self._log_file = log_file
        self._forks = forks
        self._process: asyncio.subprocess.Process | Forked | None = None
        self._watch: asyncio.Task[None] | None = None
        self._ready, self._rested = asyncio.Event(), asyncio.Event()
        self.starts = 0
        """Processes begun so far: one more each time that it is started again."""

    @property
    def pid(self) -> int | None:
        """The process id; `None` before the start."""
        return None if self._process is None else self._process.pid

    @property
    def was_refused(self) -> bool:
        """Whether its one start was refused: that comes before it consumes anything."""
        watch = self._watch
        if watch is None or not watch.done() or watch.cancelled() or self._ready.is_set():
            return False
        return self.starts == 1 and isinstance(watch.exception(), Refused)

    async def start(self, timeout_s: float = 60.0) -> None:
        """Start, and return when all stages consume.

        Raises `Refused` where the child refuses its settings, else `Unavailable`, with the last line of its log.
        """
        self._watch = asyncio.create_task(self._keep_running())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._watch, ready}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._watch.done():
            self._watch.result()
        if not self._ready.is_set():
            raise Unavailable(f"{self._name} was not ready after {timeout_s:.0f} s")

    async def failed(self) -> None:
        """Wait until the worker has ended for good; raises as `start`."""
        if self._watch is not None:
            await asyncio.shield(self._watch)

    async def rest(self, timeout_s: float = 15.0) -> bool:
        """Have its stages stop that read the log, while the others go on; whether they have, or it has ended."""
        if self._process is None or not self._ready.is_set():
            return True
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
        waits = [asyncio.ensure_future(self._rested.wait()), asyncio.ensure_future(self._process.wait())]
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        await cancelled(*waits)
        return bool(done)

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Send SIGTERM, then SIGKILL after the timeout."""
        if self._watch is not None:
            self._watch.cancel()
        await end_process(self._process, timeout_s)

    def kill(self) -> None:
        """Send SIGKILL, and start it no more; `stop` waits for its end."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _keep_running(self) -> None:
        in_a_row = 0
        while True:
            begun = monotonic()
            code, last_line = await self._run_once()
            in_a_row = 1 if monotonic() - begun >= STEADY_S else in_a_row + 1
            why = f"{self._name} ended ({meaning(code)}, {code}): {last_line}"
            if code == Exit.USAGE:
                raise Refused(why)
            if code in HOPELESS or in_a_row > MAX_RESTARTS:
                raise Unavailable(why)
            pause = restart_pause(in_a_row)
            log.warning("%s; restarting it in %.1f s", why, pause)
            await asyncio.sleep(pause)

    async def _run_once(self) -> tuple[int, str]:
        self.starts += 1
        async with read_pipe() as (said, write_end):
            self._process = await self._begin(write_end)
            os.close(write_end)  # the child has the only one now, so that its end is seen
            last_line = await self._listen(said)
        return await self._process.wait(), last_line

    async def _begin(self, errors: int) -> "asyncio.subprocess.Process | Forked":
        """Fork the process where that is possible, or start it from nothing; its standard error goes to ``errors``."""
        if self._forks is not None:
            with contextlib.suppress(Unavailable):
                return await self._forks.start(self._command, self._environment, (errors, errors))
        command = dies_with_parent([sys.executable, "-m", "eunoe.deploy.cli", *self._command])
        return await asyncio.create_subprocess_exec(
            *command, env=self._environment, stdout=asyncio.subprocess.DEVNULL, stderr=errors
        )

    async def _listen(self, said: asyncio.StreamReader) -> str:
        """Forward the child's log; returns its last line."""
        last = ""
        with LogFile(self._log_file) if self._log_file else contextlib.nullcontext() as file:
            while line := await next_line(said):
                text = line.decode(errors="replace").rstrip()
                if text.startswith("ready: "):
                    self._ready.set()
                elif text == RESTED:
                    self._rested.set()
                elif file is not None:
                    file.write([line])
                last = text or last
        return last


class GatewayProcess(WorkerProcess):
    """`eunoe gateway` as a child process."""

    def __init__(
        self,
        address: str,
        environment: Mapping[str, str],
        log_file: Path | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        super().__init__((), environment, log_file, forks)
        self._command = ("gateway", "--address", address)
        self._name = "the gateway"
        self.keys = Path(environment["EUNOE_GATEWAY__KEYS"])
        self.url = f"http://{address}"
