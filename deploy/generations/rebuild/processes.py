"""Starts the processes of a rebuild, each with its share: forks of the command where that is possible."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from eunoe.deploy.clients.connect import connected_settings, environment
from eunoe.deploy.clients.models import uses_endpoint
from eunoe.deploy.generations.rebuild import share as share_process
from eunoe.deploy.generations.rebuild.progress import ProgressLine
from eunoe.deploy.generations.rebuild.share import Share
from eunoe.deploy.local.children import dies_with_parent
from eunoe.deploy.process.forked import Forked, ForkServer, fork_server, next_line, read_pipe
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable


@contextmanager
def forks_for_shares() -> Iterator[ForkServer | None]:
    """A server of forks of this process that run shares; `None` where there is none.

    A fork has imported everything: that takes seconds. To be entered before this process has threads of its own or an
    event loop. Raises `Refused` for unusable settings.
    """
    if uses_endpoint(connected_settings(), os.environ):
        import openai  # noqa: F401, PLC0415 - for all shares; see eunoe.workers.models.endpoint.client
    with fork_server(share_process.main) as forks:
        yield forks


async def run_share(
    settings: Settings, share: Share, received: Callable[[ProgressLine], None], forks: ForkServer | None
) -> None:
    """Run a process with its share until it ends; ``received`` gets its progress.

    Raises `Unavailable` where it fails.
    """
    async with read_pipe() as (made, output), read_pipe() as (said, errors):
        try:
            process = await _begin(share, {**os.environ, **environment(settings)}, (output, errors), forks)
        finally:
            os.close(output)  # the child has the only ones now, so that their ends are seen
            os.close(errors)
        async with _ended(process):
            last_words = asyncio.create_task(_told(said))
            async for line in made:
                received(ProgressLine.from_json(line))
            code, message = await process.wait(), await last_words
    if code:
        raise Unavailable(f"a process of the rebuild ended with exit code {code}: {message}; run the command again")


async def _begin(
    share: Share, variables: Mapping[str, str], outputs: tuple[int, int], forks: ForkServer | None
) -> "asyncio.subprocess.Process | Forked":
    words = ("rebuild", share.model_dump_json())
    if forks is not None:
        with contextlib.suppress(Unavailable):
            return await forks.start(words, variables, outputs)
    command = dies_with_parent([sys.executable, "-m", share_process.__name__, *words])
    return await asyncio.create_subprocess_exec(*command, env=variables, stdout=outputs[0], stderr=outputs[1])


@asynccontextmanager
async def _ended(process: "asyncio.subprocess.Process | Forked") -> AsyncIterator[None]:
    """Kill the process at the end, where it has not ended by itself."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _told(stderr: asyncio.StreamReader) -> str:
    """Pass on what a process says, such as what it waits for; returns its last line."""
    last = ""
    while line := await next_line(stderr):
        last = line.decode(errors="replace").strip()
        sys.stderr.write(f"{last}\n")
    return last[-2000:]
