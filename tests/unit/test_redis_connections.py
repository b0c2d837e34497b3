"""Commands packed in C are those that redis-py packs."""

import asyncio

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Connection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import DataError

from eunoe.deploy.clients.redis_connections import TcpConnection

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
