"""Connections to a broker that broke a moment ago."""

import asyncio
import contextlib

import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection

from eunoe.streams.settings import KafkaSettings, client_options


async def _connected(port: int) -> AIOKafkaConnection:
    client_options(KafkaSettings())  # as every client does
    connection = AIOKafkaConnection("127.0.0.1", port)
    connection._reader, connection._writer = await asyncio.open_connection("127.0.0.1", port)
    return connection


@pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_connection_that_broke_before_all_of_it_was_read_is_not_written_to(make_loop: type) -> None:
    async def breaks() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            connection = await _connected(server.sockets[0].getsockname()[1])
            assert connection.connected()
            connection._reader.feed_data(b"an answer that is not read yet")
            connection._writer.transport.abort()
            await connection._writer.wait_closed()
            if isinstance(asyncio.get_running_loop(), uvloop.Loop):
                with pytest.raises(RuntimeError, match="the handler is closed"):
                    connection._writer.write(b"a request")
            assert not connection._reader.at_eof()
            assert not connection.connected()
            connection._reader = None

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(breaks())
