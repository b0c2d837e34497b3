"""A stop of `eunoe up`: clean only where no worker read on in the log while the stages behind intake were drained."""

import asyncio
from typing import Any

import pytest

from eunoe.deploy.process import draining
from eunoe.deploy.process.draining import settle
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.settings import Settings

pytestmark = pytest.mark.timeout(20)


class Process:
    """A process that runs until a signal ends it, or has ended."""

    pid = 1

    def __init__(self, code: int | None = None) -> None:
        self.returncode = code
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        if self.returncode is None:
            await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        self.returncode = -number
        self._ended.set()


class Worker(WorkerProcess):
    """A worker whose first process was ready and has crashed; the next one runs."""

    def __init__(self) -> None:
        super().__init__(["all"], {})
        self._codes: list[int | None] = [70, None]
        self.runs = asyncio.Event()

    async def _begin(self, errors: int) -> Any:
        del errors
        self._ready.set()
        process = Process(self._codes.pop(0))
        if process.returncode is None:
            self.runs.set()
        return process


class Stack:
    drained = False

    def mark_drained(self) -> None:
        self.drained = True


class Journal:
    async def drain(self) -> None:
        pass


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_worker_that_comes_back_while_the_others_drain_makes_the_stop_unclean(comes_back, monkeypatch):
    worker, stack = Worker(), Stack()
    crashed, goes_on = asyncio.Event(), asyncio.Event()

    async def pause(_: float) -> None:
        crashed.set()
        await goes_on.wait()

    async def drained(*given: object) -> None:
        is_behind_intake = len(given) == 4
        if comes_back and is_behind_intake:
            goes_on.set()
            await worker.runs.wait()

    async def ends_now(*_: object) -> dict[Any, Any]:
        return {}

    monkeypatch.setattr(asyncio, "sleep", pause)
    monkeypatch.setattr(draining, "drained", drained)
    monkeypatch.setattr(draining, "ends_now", ends_now)
    starting = asyncio.create_task(worker.start())
    await crashed.wait()
    await starting
    await settle(Settings(kafka="nowhere:9092"), stack, [worker], Journal(), lambda *_: None, 1.0)
    assert stack.drained is not comes_back
