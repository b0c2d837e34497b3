"""The worker processes of a fault run: none of them outlives its `stop`."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path

import pytest

from tests.faults.workers import Worker
from tests.support.command import until
from tests.support.stack import alive

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
"""A process that does not end when it is asked to."""


class Slow:
    """Starts processes, and takes its time."""

    def __init__(self, program: str, seconds: float) -> None:
        self.program = program
        self.seconds = seconds
        self.pids: list[int] = []

    async def __call__(self, _: list[str], __: Mapping[str, str], log: Path) -> tuple[int, Awaitable[int]]:
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", self.program, stdout=output)
        self.pids.append(process.pid)
        await asyncio.sleep(self.seconds)
        return process.pid, process.wait()


@pytest.mark.parametrize("waited_s", [0.05, 0.3])
async def test_a_process_ends_also_where_it_was_just_being_started(tmp_path: Path, waited_s: float) -> None:
    start = Slow("import time; time.sleep(60)", 0.2)
    worker = Worker("tree", start, {}, tmp_path / "log")
    worker.begin()
    await asyncio.sleep(waited_s)
    assert await worker.stop(20.0)
    assert (len(start.pids), [pid for pid in start.pids if alive(pid)]) == (1, [])
    assert worker.exits == {-signal.SIGTERM: 1}


async def test_a_process_that_does_not_stop_is_killed_and_that_is_told(tmp_path: Path) -> None:
    start = Slow(STUBBORN, 0.0)
    worker = Worker("tree", start, {}, tmp_path / "log")
    worker.begin()

    async def is_on() -> bool:
        return (tmp_path / "log").exists() and (tmp_path / "log").stat().st_size > 0

    await until(is_on)
    assert not await worker.stop(0.1)
    assert worker.exits == {-signal.SIGKILL: 1}
    assert not alive(start.pids[0])


async def test_a_worker_that_never_began_has_nothing_to_stop(tmp_path: Path) -> None:
    assert await Worker("tree", Slow("", 0.0), {}, tmp_path / "log").stop()
