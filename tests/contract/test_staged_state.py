"""State that is written beside its place first: an erasure finds what a killed or stopped process has written of it."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Commit, Ledger, Put, Scope
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants
from tests.contract.conftest import SEVERAL
from tests.support.staging_process import PIECES, TABLES, long_state

pytestmark = pytest.mark.broker

KEY = "acme/c1"
INTAKE = Scope("intake", KEY)


@dataclass
class Server:
    """One Redis and the names in it."""

    url: str
    client: RedisClient
    keys: Keys

    @property
    def store(self) -> RedisStore:
        return RedisStore(self.client, self.keys)

    async def fill(self) -> None:
        assert await self.store.commit(INTAKE, Commit(expect=0, applied=7, writes=(Put("lines", "1", "said"),)))

    async def erase(self) -> None:
        """Replace the state by what is left of a conversation that was erased."""
        there = await self.store.ledger(INTAKE)
        left = StoredConversation({"intake": Ledger(there.applied, lates=there.lates + 1)}, {}, {})
        assert await RedisTransplants(self.store, self.client, self.keys).swap(KEY, TABLES, left, there)

    async def names(self) -> set[str]:
        """The names within the conversation of its keys."""
        found = {name.decode() async for name in self.client.scan_iter(match=self.keys.generation_pattern())}
        return {name.removeprefix(self.keys.stub(KEY).removesuffix("cold")) for name in found}

    async def beside(self) -> set[str]:
        return {name for name in await self.names() if "~" in name}

    @asynccontextmanager
    async def interrupted(self, number: signal.Signals, at_least: int = 1) -> AsyncIterator[asyncio.subprocess.Process]:
        """A process that replaces the state and has met this signal in the middle of it.

        ``at_least``: hashes beside their places, of all processes, by which that is seen.
        """
        words = [self.url, self.keys.prefix, self.keys.generation, KEY, number.name]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.staging_process", *words, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                while len(await self.beside() - {"~"}) < at_least:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture(params=["redis", pytest.param("cluster", marks=SEVERAL)])
async def server(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[Server]:
    url = request.getfixturevalue(f"{request.param}_url")
    async with open_redis_url(url) as client:
        yield Server(url, client, keys)
        await forget_generation(client, keys)


async def test_an_erasure_removes_what_a_killed_process_was_writing(server: Server) -> None:
    await server.fill()
    async with server.interrupted(signal.SIGKILL) as killed:
        assert await killed.wait() == -signal.SIGKILL
        assert await server.beside()
        await server.erase()
        assert await server.names() == {"intake"}


async def test_a_process_that_an_erasure_overtook_in_the_middle_writes_nothing_more(server: Server) -> None:
    await server.fill()
    async with server.interrupted(signal.SIGSTOP) as stopped:
        await server.erase()
        assert await server.names() == {"intake"}
        stopped.send_signal(signal.SIGCONT)
        out, _ = await stopped.communicate()
        assert out.strip() == b"False"
        assert await server.names() == {"intake"}


async def test_nothing_of_what_was_read_before_an_erasure_is_written_beside_its_place(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.fill()
    before = await server.store.ledger(INTAKE)
    await server.erase()
    run, beside = RedisConnection.run, list[set[str]]()

    async def looked_at(self: RedisConnection, *words: Any) -> Any:
        done = await run(self, *words)
        beside.append(await server.beside())
        return done

    monkeypatch.setattr(RedisConnection, "run", looked_at)
    late = RedisTransplants(server.store, server.client, server.keys)
    assert not await late.swap(KEY, TABLES, long_state(7), before)
    assert not any(beside)
    assert beside
    assert await server.names() == {"intake"}


async def test_what_two_processes_write_at_once_is_found_by_the_one_that_is_first(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.fill()
    there = await server.store.ledger(INTAKE)
    run, first = RedisConnection.run, True

    async def overtaken(self: RedisConnection, script: Script, *words: Any) -> Any:
        """Another process begins to write after this one has looked for others."""
        nonlocal first
        if script.name == "swap" and first:
            first = False
            async with server.interrupted(signal.SIGKILL, at_least=2) as killed:
                await killed.wait()
        return await run(self, script, *words)

    monkeypatch.setattr(RedisConnection, "run", overtaken)
    quick = RedisTransplants(server.store, server.client, server.keys)
    assert await quick.swap(KEY, TABLES, long_state(7), there)
    assert not first
    assert await server.names() == {"intake", "update/memories"}
    assert len(await server.store.scan("update", KEY, "memories")) == PIECES * 500
