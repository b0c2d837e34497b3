"""Commands packed in C are those that redis-py packs; connections at rest are handed out at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import BlockingConnectionPool, Connection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import DataError

from eunoe.deploy.clients.redis_connections import QuickPool, TcpConnection

words = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.binary() | st.integers() | st.floats())


@given(name=st.sampled_from(["GET", b"HSET", "CLIENT SETINFO", b"CLIENT SETINFO"]), rest=words)
def test_a_command_has_the_bytes_that_redis_py_gives_it(
    name: str | bytes, rest: list[str | bytes | int | float]
) -> None:
    assert b"".join(TcpConnection().pack_command(name, *rest)) == b"".join(Connection().pack_command(name, *rest))


@pytest.mark.parametrize("word", [None, [1], True])
@pytest.mark.parametrize("kind", [Connection, TcpConnection])
def test_a_word_of_another_type_is_refused(kind: type[Connection], word: object) -> None:
    with pytest.raises(DataError):
        kind().pack_command("GET", word)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        TcpConnection().pack_command("GET", "\ud800")


def test_a_connection_that_closed_is_lost_with_uvloop_too() -> None:
    async def send_to_closed(port: int) -> None:
        connection = TcpConnection(port=port, protocol=2, driver_info=None)
        await connection.connect()
        connection._writer.transport.abort()
        while "closed=False" in repr(connection._writer.transport):  # noqa: ASYNC110 - nothing to await
            await asyncio.sleep(0)
        with pytest.raises(ConnectionLost):
            await connection.send_command("GET", "key")

    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1")
        async with server:
            await send_to_closed(server.sockets[0].getsockname()[1])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_a_command_that_the_transport_takes_at_once_makes_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(port: int) -> None:
        connection = TcpConnection(port=port, protocol=2, driver_info=None, socket_timeout=5)
        await connection.connect()
        monkeypatch.setattr(asyncio, "wait_for", None)
        await connection.send_command("GET", "key")
        monkeypatch.undo()
        await connection.disconnect()

    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1")
        async with server:
            await send(server.sockets[0].getsockname()[1])

    asyncio.run(run())


@asynccontextmanager
async def pool_of(most: int, timeout: float) -> AsyncIterator[tuple[QuickPool, list[asyncio.StreamWriter]]]:
    """A pool of connections to a server that says nothing, and the server's ends of them."""
    ends: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _reader, writer: ends.append(writer), "127.0.0.1")
    options = {"port": server.sockets[0].getsockname()[1], "protocol": 2, "driver_info": None}
    pool = QuickPool(connection_class=TcpConnection, max_connections=most, timeout=timeout, **options)
    async with server:
        try:
            yield pool, ends
        finally:
            await pool.aclose()
            for end in ends:
                end.close()


async def test_a_connection_at_rest_is_handed_out_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pool_of(2, timeout=5) as (pool, _):
        first = await pool.get_connection()
        await pool.release(first)
        monkeypatch.setattr(BlockingConnectionPool, "get_connection", None)
        monkeypatch.setattr(BlockingConnectionPool, "release", None)
        assert await pool.get_connection() is first
        await pool.release(first)
        with pytest.raises(KeyError):
            await pool.release(first)


@pytest.mark.parametrize("told", [b"", b"+late reply\r\n"])
async def test_a_connection_that_closed_or_has_data_is_opened_anew(told: bytes) -> None:
    async with pool_of(1, timeout=5) as (pool, ends):
        connection = await pool.get_connection()
        await pool.release(connection)
        ends[0].write(told)
        if not told:
            ends[0].close()
        while not await connection.can_read():  # noqa: ASYNC110 - nothing to await
            await asyncio.sleep(0)
        again = await pool.get_connection()
        assert again.is_connected
        assert not await again.can_read()
        await pool.release(again)


async def test_callers_beyond_the_most_connections_wait_in_turn_or_are_told() -> None:
    async with pool_of(1, timeout=0.2) as (pool, _):
        held = await pool.get_connection()
        with pytest.raises(ConnectionLost):
            await pool.get_connection()
        waiting = [asyncio.ensure_future(pool.get_connection()) for _ in range(2)]
        await asyncio.sleep(0)
        await pool.release(held)
        assert await waiting[0] is held
        assert not waiting[1].done()
        await pool.release(held)
        assert await waiting[1] is held
        await pool.release(held)
        assert await pool.get_connection() is held


async def test_who_is_cancelled_while_a_connection_is_looked_at_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pool_of(1, timeout=5) as (pool, _):
        first = await pool.get_connection()
        await pool.release(first)
        with monkeypatch.context() as slowly:
            slowly.setattr(first, "can_read", asyncio.Event().wait)
            asking = asyncio.ensure_future(pool.get_connection())
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert await pool.get_connection() is first
        await pool.release(first)
