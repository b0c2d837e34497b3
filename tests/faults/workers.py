"""Worker processes of a fault run: started, killed, paused, and started again whenever they end."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from eunoe.deploy.local.children import dies_with_parent
from tests.support.command import environment

AGAIN_S = 0.3
"""A process that ended is started again after this time, as a supervisor does."""
EXPECTED = frozenset({0, 69, 75, -signal.SIGKILL, -signal.SIGTERM})
"""Exit codes that a worker may end with: stopped, a server stayed away, another took over, killed by us."""


class Nursery:
    """The process that forks workers (see `tests.faults.nursery`)."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._tickets = itertools.count()
        self._pids: dict[int, asyncio.Future[int]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        variables = environment({"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"})
        self._process = await asyncio.create_subprocess_exec(
            *dies_with_parent([sys.executable, "-m", "tests.faults.nursery"]),
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        ready = await asyncio.wait_for(self._process.stdout.readline(), 300)
        assert b"ready" in ready, ready
        self._reading = asyncio.create_task(self._read(self._process.stdout))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        if self._reading is not None:
            self._reading.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def start(self, words: list[str], variables: Mapping[str, str], log: Path) -> "tuple[int, Awaitable[int]]":
        """Start `eunoe` with these words; returns its process id and what waits for its exit code."""
        assert self._process is not None
        assert self._process.stdin is not None
        ticket = next(self._tickets)
        self._pids[ticket] = started = asyncio.get_running_loop().create_future()
        order = {"ticket": ticket, "words": words, "variables": dict(variables), "log": str(log)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = await started
        return pid, self._ends[pid]

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            told: dict[str, Any] = json.loads(line)
            if "ticket" in told:
                self._ends[told["pid"]] = asyncio.get_running_loop().create_future()
                self._pids.pop(told["ticket"]).set_result(told["pid"])
            else:
                self._ends.pop(told["pid"]).set_result(told["code"])


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
    _stopping: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Start, and start again after every end until `stop`."""
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while not self._stopping:
            self._ended.clear()
            self.pid, end = await self.start(["worker", self.stage], self.variables, self.log)
            code = await end
            self.pid = None
            self._ended.set()
            self.exits[code] += 1
            if not self._stopping:
                await asyncio.sleep(AGAIN_S)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process that runs now; nothing where none does."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ready_count(self) -> int:
        """How often a process of this worker has said that it consumes."""
        return self.log.read_bytes().count(b"ready: ") if self.log.exists() else 0

    async def stop(self, timeout_s: float = 60.0) -> bool:
        """SIGTERM, and SIGKILL after the deadline; False: the deadline passed."""
        self._stopping = True
        gentle = True
        if self.pid is not None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._ended.wait(), timeout_s)
            except TimeoutError:
                gentle = False
                self.send(signal.SIGKILL)
                await self._ended.wait()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        return gentle
