"""Server-sent events: their format, and the response that streams them."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eunoe.schemas.base import Value

EVENT_STREAM: Final = "text/event-stream"
PING: Final = b": ping\n\n"
CLOSING: Final = b"event: closing\ndata: {}\n\n"
"""Sent before the process ends: connect again, to any replica."""
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
)


def write_event(name: str, data: Value | Mapping[str, object] | bytes, id_: str | None = None) -> bytes:
    """An event as it is sent; ``data`` in bytes is JSON already."""
    body = data if isinstance(data, bytes) else _json(data)
    head = f"event: {name}\n" if id_ is None else f"id: {id_}\nevent: {name}\n"
    return head.encode() + b"data: " + body + b"\n\n"


def _json(data: Value | Mapping[str, object]) -> bytes:
    return data.to_json() if isinstance(data, Value) else orjson.dumps(data)


class EventStream:
    """A response that streams events until they end, the client leaves, or the process closes."""

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        resources: AsyncExitStack,
        closing: asyncio.Event,
        ping_s: float,
    ) -> None:
        """``resources`` are closed at the end of the stream; ``ping_s`` is the longest silence, in seconds."""
        self._events = events
        self._resources = resources
        self._closing = closing
        self._ping_s = ping_s
        self.status_code = 200
        self.headers: dict[str, str] = {}
        """Further headers."""

    async def head(self) -> Response:
        """The response without its events, whose resources are closed: nobody reads them."""
        async with self._resources:
            await self._events.aclose()
        names = {name.decode(): value.decode() for name, value in _HEADERS}
        return Response(headers={**names, **self.headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""
        del scope
        async with self._resources:
            own = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *own]})
            pump = asyncio.ensure_future(self._pump(send))
            gone = asyncio.ensure_future(_until_disconnected(receive))
            try:
                await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                pump.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await pump

    async def _pump(self, send: Send) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        coming = asyncio.ensure_future(anext(self._events))
        try:
            while not closing.done():
                await asyncio.wait({coming, closing}, timeout=self._ping_s, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    await _send(send, coming.result())
                    coming = asyncio.ensure_future(anext(self._events))
                elif not closing.done():
                    await _send(send, PING)
            await _send(send, CLOSING)
        except StopAsyncIteration:
            pass
        finally:
            closing.cancel()
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                await coming
            await self._events.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, chunk: bytes) -> None:
    """Send; waits for a client that does not read until its connection is dropped."""
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
