"""HTTP/1.1 connections whose heads are bounded in time and size; uvicorn alone bounds the silence between requests."""

import asyncio
import logging
from typing import Any, Final, cast
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eunoe.deploy.gateway.problems import Problem

log = logging.getLogger(__name__)

MAX_HEAD: Final = 65_536
"""Bytes of a request line with its headers, and of the trailers behind a body."""
MAX_HEADERS: Final = 200
_TOO_LARGE: Final = f"the line and headers of a request have at most {MAX_HEAD:,} bytes and {MAX_HEADERS} headers"
_NO_HTTP: Final = "this is no HTTP/1.1 request: a line or a header of it cannot be read, or it names no known method"


class HeadTooLarge(Exception):
    """Raised within the parser to stop it: the head of a request exceeds its bounds."""


class BoundedHeads(HttpToolsProtocol):
    """Drops a connection whose first request, or whose next one once begun, has no whole head after some time.

    A head of more than `MAX_HEAD` bytes or `MAX_HEADERS` headers is refused. The parser copies what it has of a header
    at each read: without a bound, 64 MB of one header hold the event loop for 20 seconds.
    """

    header_s = 20.0
    """Seconds; see `bounded_heads`."""
    _late: asyncio.TimerHandle | None = None
    _pending = 0
    """Bytes that came since the last end of a head, piece of a body, or end of a message."""
    _size = 0
    """Bytes of the URL and the whole headers of this message."""
    _too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes to the parser, unless it waits already for the end of too many."""
        if self._too_large:
            return
        if self._pending > MAX_HEAD:  # tested before this read is counted: it may hold the end of the head and a body
            self._refuse()
            return
        self._pending += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the rest of the head."""
        super().on_message_begin()
        self._size = 0
        self._wait()

    def on_url(self, url: bytes) -> None:
        """Count a piece of the URL."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer."""
        self._count(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            raise HeadTooLarge

    def on_headers_complete(self) -> None:
        """Wait no longer; the body has a time limit of its own."""
        self._wait_no_more()
        self._pending = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count no bytes of a body; what follows the last of them are trailers."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew for the next message."""
        self._pending = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refuses, or what was too large for it."""
        if self._size > MAX_HEAD or len(self.headers or ()) > MAX_HEADERS:
            self._refuse()
        else:
            del msg
            self._answer(Problem(400, _NO_HTTP))

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_HEAD:
            raise HeadTooLarge

    def _refuse(self) -> None:
        """Answer 431, unless another answer is being sent, and close."""
        self._too_large = True
        log.info("a connection was dropped: a head of more than %d bytes or %d headers", MAX_HEAD, MAX_HEADERS)
        if self.cycle is not None and not self.cycle.response_complete:
            cast("Any", self.transport).abort()
            return
        self._answer(Problem(431, _TOO_LARGE))

    def _answer(self, problem: Problem) -> None:
        """Answer where there is no request that the application could answer, and close."""
        id_ = str(uuid4())
        response = problem.response(id_)
        headers = (*self.server_state.default_headers, *response.raw_headers)
        lines = (b"%b: %b" % header for header in headers)
        own = (b"x-request-id: %b" % id_.encode(), b"connection: close")
        body = bytes(response.body)
        self.transport.write(STATUS_LINE[problem.status] + b"\r\n".join((*lines, *own, b"", body)))
        self.transport.close()

    def _wait(self) -> None:
        self._wait_no_more()
        self._late = self.loop.call_later(self.header_s, self._drop)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _drop(self) -> None:
        log.info("a connection was dropped: no request came on it within %.0f s", self.header_s)
        cast("Any", self.transport).abort()


def bounded_heads(seconds: float) -> type[BoundedHeads]:
    """The protocol with this limit; uvicorn makes the connections, and takes nothing but the class."""
    return type("BoundedHeads", (BoundedHeads,), {"header_s": seconds})
