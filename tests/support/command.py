"""Runs `eunoe` as people do: in processes of their own."""

import asyncio
import atexit
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eunoe.deploy.process.forked import Forked, ForkServer, end_process, read_pipe, started_fork_server

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "eunoe.deploy.cli")
FORKING = (sys.executable, "-m", "eunoe.deploy.cli.forking")
OURS = ("EUNOE_", "OPENAI_")


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """This process's, without what would point the command at other servers or models."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**inherited, "COLUMNS": "200", "NO_COLOR": "1", **more}


async def eunoe(*words: str, cwd: Path, timeout_s: float = 200, **more: str) -> Finished:
    """Run a command to its end; ``more`` are environment variables."""
    async with read_pipe() as (out, out_end), read_pipe() as (err, err_end):
        process = await start(words, cwd, more, out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        try:
            async with asyncio.timeout(timeout_s):
                said, told, code = await asyncio.gather(out.read(), err.read(), process.wait())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
    return Finished(code, said.decode(), told.decode())


async def run_module(module: str, *words: str, cwd: Path, timeout_s: float = 200, **more: str) -> Finished:
    """Run a module of this checkout as a program, to its end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        cwd=cwd,
        env=environment({**more, "PYTHONPATH": str(ROOT)}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


async def start(
    words: Sequence[str], cwd: Path, more: Mapping[str, str], out: int, err: int
) -> asyncio.subprocess.Process | Forked:
    """Start a command that writes to the descriptors ``out`` and ``err``; ``more`` are environment variables.

    It is forked where that is possible: its imports alone take two seconds. What is started from nothing has tests of
    its own.
    """
    variables = environment({"PYTHONUNBUFFERED": "1", **more})
    forks = _forks()
    if forks is None:
        return await asyncio.create_subprocess_exec(
            *COMMAND, *words, cwd=cwd, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err
        )
    return await forks.start(words, variables, (out, err), cwd)


@cache
def _forks() -> ForkServer | None:
    """One for all tests; it ends with this process."""
    if sys.platform != "linux":
        return None
    closing = ExitStack()
    atexit.register(closing.close)
    return closing.enter_context(started_fork_server(FORKING, environment({"PYTHONUNBUFFERED": "1"})))


@asynccontextmanager
async def running(
    *words: str, cwd: Path, ready: str = "ready", timeout_s: float = 150, **more: str
) -> AsyncIterator[asyncio.subprocess.Process | Forked]:
    """A command that goes on until the block ends; entered when it has said ``ready``."""
    async with read_pipe() as (out, out_end):
        process = await start(words, cwd, more, out_end, out_end)
        os.close(out_end)
        said: list[str] = []
        listening = asyncio.create_task(_listen(out, said))
        try:
            await until(lambda: _any_says(said, ready, process), timeout_s, lambda: "".join(said))
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(process.wait(), 40)
                except TimeoutError:
                    process.kill()
            await process.wait()
            await listening


@contextmanager
def running_beside(
    *words: str, cwd: Path, log: Path, ready: str = "ready", timeout_s: float = 150, **more: str
) -> Iterator[None]:
    """The same for several tests, outside of their event loops; what the command prints goes to the file ``log``."""
    with log.open("wb") as output, asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        process = runner.run(start(words, cwd, more, output.fileno(), output.fileno()))
        try:
            runner.run(until(lambda: _log_says(log, ready, process), timeout_s, log.read_text))
            yield
        finally:
            runner.run(end_process(process, 40))


async def _log_says(log: Path, ready: str, process: asyncio.subprocess.Process | Forked) -> bool:
    assert process.returncode is None, f"ended with {process.returncode}: {log.read_text()}"
    return ready in log.read_text()


async def _listen(out: asyncio.StreamReader, said: list[str]) -> None:
    while line := await out.readline():
        said.append(line.decode())


async def _any_says(said: list[str], ready: str, process: asyncio.subprocess.Process | Forked) -> bool:
    if process.returncode is not None:
        raise AssertionError(f"ended with {process.returncode}: {''.join(said)}")
    return any(ready in line for line in said)


async def until(
    condition: Callable[[], Awaitable[bool]], timeout_s: float = 150, tell: Callable[[], str] = lambda: ""
) -> None:
    """Wait for something that happens in another process."""
    try:
        async with asyncio.timeout(timeout_s):
            while not await condition():  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s} s: {tell()}") from None
