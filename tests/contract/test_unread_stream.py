"""A stream whose client reads nothing, through the web server: its connection is dropped with what it did not read."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, closing

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from eunoe.deploy.gateway.http_protocol import bounded_connections
from eunoe.deploy.gateway.sse import EventStream

CHUNK = b"data: " + b"x" * 1_000_000 + b"\n\n"


class Endless:
    """An application that streams events without end, and knows when a stream ended."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = EventStream(self._events(), AsyncExitStack(), asyncio.Event(), ping_s=60)
        await stream(scope, receive, send)
        self.ended.set()

    async def _events(self) -> AsyncGenerator[bytes]:
        while True:
            yield CHUNK


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come true")


@pytest.fixture
async def served() -> AsyncIterator[tuple[Endless, uvicorn.Server]]:
    application = Endless()
    http = bounded_connections(header_s=20, send_s=0.2)
    server = uvicorn.Server(uvicorn.Config(application, port=0, http=http, lifespan="off", log_level="critical"))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield application, server
    server.should_exit = True
    await serving


async def test_a_client_that_reads_nothing_loses_its_connection(served: tuple[Endless, uvicorn.Server]) -> None:
    application, server = served
    loop, address = asyncio.get_running_loop(), server.servers[0].sockets[0].getsockname()
    with closing(socket.create_connection(address)) as client:
        client.setblocking(False)
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await eventually(application.ended.is_set)
        # closed in order, it would stay until all is read
        await eventually(lambda: not server.server_state.connections)
