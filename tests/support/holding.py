"""A way to a server on which requests can be held: what somebody has in hand arrives when we want it to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from eunoe.deploy.local.ports import HOST

_CHUNK = 1 << 20


@dataclass(slots=True)
class Way:
    """Connections to a server, over a port of their own."""

    port: int = 0
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request is held."""
    _words: Sequence[bytes] = ()
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, *words: bytes) -> None:
        """Hold the first request with all of these words, and everything that is sent after it."""
        self._words = words
        self.held.clear()

    def release(self) -> None:
        """Let everything through."""
        self._words = ()
        self._open.set()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, holds: bool) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(_CHUNK):
                    if holds and self._words and all(word in data for word in self._words):
                        self._open.clear()
                        self.held.set()
                    if holds:
                        await self._open.wait()
                    writer.write(data)
                    await writer.drain()
        finally:  # also where the block ends before the last one has hung up
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def way_to(host: str, port: int) -> AsyncIterator[Way]:
    """A way to the server at this address, until the block ends."""
    way, work = Way(), set[asyncio.Task[None]]()
    way.release()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        pairs = ((reader, back, True), (there, writer, False))
        tasks = {asyncio.create_task(way._forward(one, other, holds=holds)) for one, other, holds in pairs}
        work.update(tasks)

    server = await asyncio.start_server(connected, HOST, 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        way.release()
        server.close()
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
