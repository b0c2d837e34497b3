"""The server that forks `eunoe` commands."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from eunoe.deploy.process.fork_server import MAX_ORDER, News, Order
from eunoe.deploy.process.forked import Forked, ForkServer, read_pipe, started_fork_server
from eunoe.schemas.errors import Unavailable
from tests.support.command import FORKING, environment, until
from tests.support.stack import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")

WAITS = ("gateway", "--address", "127.0.0.1:0")
"""A command that goes on: it waits for a broker that is away."""
NO_BROKER = {
    "EUNOE_KAFKA": "127.0.0.1:1",
    "EUNOE_REDIS_URL": "redis://127.0.0.1:1/0",
    "EUNOE_QDRANT_URL": "http://127.0.0.1:1",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with started_fork_server(FORKING, environment()) as made:
        yield made


async def _finished(server: ForkServer, *words: str, cwd: Path, **variables: str) -> tuple[int, str]:
    async with read_pipe() as (out, end):
        forked = await server.start(words, environment(variables), (end, end), cwd)
        os.close(end)
        async with asyncio.timeout(60):
            said, code = await asyncio.gather(out.read(), forked.wait())
    return code, said.decode()


@pytest.mark.slow
async def test_a_fork_has_its_own_words_directory_and_variables(server: ForkServer, tmp_path: Path) -> None:
    code, said = await _finished(server, "produce", "nothing.jsonl", cwd=tmp_path, EUNOE_KAFKA="127.0.0.1:1")
    assert (code, said) == (2, "eunoe: nothing.jsonl: no such file\n")
    code, said = await _finished(server, "worker", "all", cwd=tmp_path, EUNOE_PREFIX="not a prefix")
    assert code == 2
    assert "settings: prefix" in said


async def test_forks_of_several_event_loops_are_told_apart(server: ForkServer, tmp_path: Path) -> None:
    ends = await asyncio.gather(
        *(_finished(server, *words, cwd=tmp_path) for words in (["--help"], ["no-such-command"]) * 5)
    )
    assert [code for code, _ in ends] == [0, 2] * 5
    again = await asyncio.to_thread(lambda: asyncio.run(_finished(server, "--help", cwd=tmp_path)))
    assert again == ends[0]


async def _waiting(server: ForkServer, cwd: Path, log: Path) -> Forked:
    with log.open("ab") as output:
        return await server.start(WAITS, environment(NO_BROKER), (output.fileno(), output.fileno()), cwd)


@pytest.fixture
async def forked(server: ForkServer, tmp_path: Path) -> AsyncIterator[Forked]:
    made = await _waiting(server, tmp_path, tmp_path / "log")
    yield made
    made.kill()
    await made.wait()


async def test_a_signal_that_ends_a_fork_is_its_exit_code(forked: Forked) -> None:
    assert forked.returncode is None

    async def named() -> bool:
        return Path(f"/proc/{forked.pid}/cmdline").read_bytes().startswith(b"eunoe gateway")

    await until(named, 20)
    forked.kill()
    async with asyncio.timeout(20):
        assert await forked.wait() == -signal.SIGKILL
    forked.kill()  # nothing left to signal


async def test_a_fork_that_is_no_longer_wanted_ends_and_others_are_heard_of() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    unwanted, wanted = [await asyncio.create_subprocess_exec("sleep", "60") for _ in range(2)]
    server = ForkServer(ours)
    starting = asyncio.create_task(server.start(["x"], {}, (1, 2)))
    await asyncio.to_thread(theirs.recv, MAX_ORDER)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    theirs.send(News(unwanted.pid, ticket=0).to_bytes())
    async with asyncio.timeout(20):
        assert await unwanted.wait() == -signal.SIGKILL
        starting = asyncio.create_task(server.start(["x"], {}, (1, 2)))
        await asyncio.to_thread(theirs.recv, MAX_ORDER)
        theirs.send(News(wanted.pid, ticket=1).to_bytes())
        forked = await starting
    assert (forked.pid, wanted.returncode) == (wanted.pid, None)
    wanted.kill()
    await wanted.wait()
    theirs.close()
    server.close()


@pytest.mark.slow
async def test_forks_end_with_a_killed_server_and_later_ones_are_refused(tmp_path: Path) -> None:
    with started_fork_server(FORKING, environment()) as server:
        forked = await _waiting(server, tmp_path, tmp_path / "log")
        parent = int(Path(f"/proc/{forked.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        async with asyncio.timeout(20):
            assert await forked.wait() == -signal.SIGKILL

        async def gone() -> bool:
            return not alive(forked.pid)

        await until(gone, 20)
        with pytest.raises(Unavailable, match="the fork server"):
            await _waiting(server, tmp_path, tmp_path / "log")


def test_messages_survive_their_way() -> None:
    order = Order(7, ["worker", "all"], {"EUNOE_KAFKA": "ü"}, "/tmp")
    assert Order.from_bytes(order.to_bytes()) == order
    assert News.from_bytes(News(3, code=-9).to_bytes()) == News(3, code=-9)
