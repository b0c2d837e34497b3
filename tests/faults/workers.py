"""Worker processes of a fault run: started, killed, paused, and started again whenever they end."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.process.forked import ForkServer, started_fork_server
from tests.support.command import FORKING, environment

AGAIN_S = 0.3
"""A process that ended is started again after this time, as a supervisor does."""
EXPECTED = frozenset({0, 69, 75, -signal.SIGKILL, -signal.SIGTERM})
"""Exit codes that a worker may end with: stopped, a server stayed away, another took over, killed by us."""


class Nursery:
    """The process that forks workers."""

    def __init__(self) -> None:
        self._variables = environment({"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"})
        self._closing = contextlib.ExitStack()
        self._server: ForkServer | None = None

    async def __aenter__(self) -> Self:
        self._server = self._closing.enter_context(started_fork_server(FORKING, self._variables))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._closing.close)

    async def start(self, words: list[str], variables: Mapping[str, str], log: Path) -> "tuple[int, Awaitable[int]]":
        """Start `eunoe` with these words; returns its process id and what waits for its exit code."""
        assert self._server is not None
        with log.open("ab") as output:
            outputs = (output.fileno(), output.fileno())
            forked = await self._server.start(words, {**self._variables, **variables}, outputs)
        return forked.pid, forked.wait()


async def start_apart(words: list[str], variables: Mapping[str, str], log: Path) -> "tuple[int, Awaitable[int]]":
    """The same in a process that is started from nothing: for what must be there from its beginning (LD_PRELOAD)."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *dies_with_parent([sys.executable, "-m", "eunoe.deploy.cli", *words]),
            env=environment(variables),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    return process.pid, process.wait()


Starter = Callable[[list[str], Mapping[str, str], Path], "Awaitable[tuple[int, Awaitable[int]]]"]


@dataclass(slots=True)
class Worker:
    """One worker process of one stage, and those that follow it."""

    stage: str
    start: Starter
    variables: Mapping[str, str]
    log: Path
    exits: Counter[int] = field(default_factory=Counter)
    pid: int | None = None
    _keeping: "asyncio.Task[None] | None" = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Start, and start again after every end until `stop`."""
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            self.pid, end = await self.start(["worker", self.stage], self.variables, self.log)
            if self._stopping.is_set():  # `stop` found no process that it could tell
                self.send(signal.SIGTERM)
            code = await end
            self.pid = None
            self.exits[code] += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), AGAIN_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process that runs now; nothing where none does."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ready_count(self) -> int:
        """How often a process of this worker has said that it consumes."""
        return self.log.read_bytes().count(b"ready: ") if self.log.exists() else 0

    async def stop(self, timeout_s: float = 60.0) -> bool:
        """SIGTERM, and SIGKILL after the deadline; False: the deadline passed. Also one that is being started ends."""
        self._stopping.set()
        if self._keeping is None:
            return True
        for number in (signal.SIGCONT, signal.SIGTERM):
            self.send(number)
        gentle, _ = await asyncio.wait({self._keeping}, timeout=timeout_s)
        while not self._keeping.done():
            self.send(signal.SIGKILL)
            await asyncio.wait({self._keeping}, timeout=AGAIN_S)
        await asyncio.gather(self._keeping, return_exceptions=True)
        return bool(gentle)
