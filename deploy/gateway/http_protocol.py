"""HTTP/1.1 connections that no client can hold: heads, requests at once and unread answers are bounded.

uvicorn alone bounds the silence between requests.
"""

import asyncio
import logging
import socket
import struct
from typing import Any, Final, cast
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from eunoe.deploy.gateway.http_lingering import LingeringConnection
from eunoe.deploy.gateway.http_unchunked import UnchunkedSend
from eunoe.deploy.gateway.http_upgrades import IgnoredUpgrades
from eunoe.deploy.gateway.problems import Problem

log = logging.getLogger(__name__)

MAX_HEAD: Final = 65_536
"""Bytes of a request line with its headers, and of the trailers behind a body."""
MAX_HEADERS: Final = 200
MAX_REST: Final = 1 << 20
"""Bytes behind what was refused that are thrown away, so that a client that still sends gets the answer."""
MAX_WAITING: Final = 8
"""Requests of a connection that wait for the answer to the one before them."""
MIN_READ: Final = 65_536
"""Bytes that a client must take, of what waits for it, in the time that it has to read."""
_RESET: Final = struct.pack("ii", 1, 0)
"""Linger no second: what the system still holds for the client is freed, too."""
_TOO_LARGE: Final = f"the line and headers of a request have at most {MAX_HEAD:,} bytes and {MAX_HEADERS} headers"
_NO_HTTP: Final = "this is no HTTP/1.1 request: a line or a header of it cannot be read, or it names no known method"


class HeadTooLarge(Exception):
    """Raised within the parser to stop it: the head of a request exceeds its bounds."""


class TooManyRequests(Exception):
    """Raised within the parser to stop it: too many requests wait for their answers."""


class BoundedConnection(LingeringConnection, IgnoredUpgrades):
    """Drops a connection whose first request, or whose next one once begun, has no whole head after some time.

    A head of more than `MAX_HEAD` bytes or `MAX_HEADERS` headers is refused. The parser copies what it has of a header
    at each read: without a bound, 64 MB of one header hold the event loop for 20 seconds.

    Of requests that are sent before the answers to others, `MAX_WAITING` wait, and the connection is closed behind
    their answers: 2 MB of such requests would hold the event loop for 16 seconds.

    A connection whose client does not read what is sent to it is dropped after some time, with what is unread.
    """

    header_s = 20.0
    """Seconds; see `bounded_connections`."""
    send_s = 30.0
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _unread_size = 0
    """Bytes that waited for the client when it was looked at last."""
    _answered: RequestResponseCycle | None = None
    """The request that is answered now; uvicorn knows the one that came last, and tells no other of the end."""
    _too_many = False
    _pending = 0
    """Bytes that came since the last end of a head, piece of a body, or end of a message."""
    _size = 0
    """Bytes of the URL and the whole headers of this message."""
    _too_large = False
    _refused = False
    """Whether a request was answered here that the application could not answer."""
    _rest = MAX_REST
    """Bytes that may still come behind what was refused."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer, and tell the request that is answered."""
        self._wait_no_more()
        self._watch_no_more()
        self._unset_keepalive_if_required()  # uvicorn does not where the client reset it
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes to the parser, unless it waits already for the end of too many."""
        if self._too_large or self._too_many or self.lingers:
            self._throw_away(data)
            return
        if self._pending > MAX_HEAD:  # tested before this read is counted: it may hold the end of the head and a body
            self._refuse()
            return
        self._pending += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the rest of the head."""
        if len(self.pipeline) >= MAX_WAITING:
            self._too_many = True
            raise TooManyRequests
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
        if self.parser.get_http_version() == "1.0" and self.cycle is not None and self.cycle.scope is self.scope:
            self.cycle.send = UnchunkedSend(self.cycle)  # type: ignore[assignment, method-assign]  # uvicorn makes the cycle
        if not self.pipeline:
            self._answered = self.cycle

    def on_body(self, body: bytes) -> None:
        """Count no bytes of a body; what follows the last of them are trailers."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew for the next message."""
        self._pending = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request that waits."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch()

    def close_lingering(self) -> None:
        """Close the connection, whether or not its client reads the rest."""
        super().close_lingering()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """Close the silent connection, whether or not its client reads the rest."""
        super().timeout_keep_alive_handler()
        self._watch()

    def pause_writing(self) -> None:
        """Give the client some time to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on writing; the rest of a connection that closes must be read in time, too."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._watch_no_more()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refuses, or what was too much for it."""
        if self._too_many:
            self._close_behind_answers()
        elif self._size > MAX_HEAD or len(self.headers or ()) > MAX_HEADERS:
            self._refuse()
        else:
            del msg
            self._answer(Problem(400, _NO_HTTP))

    def _throw_away(self, data: bytes) -> None:
        """Close a connection on which ever more comes behind what was refused."""
        if self._refused:
            self._rest -= len(data)
            if self._rest < 0:
                self.close_lingering()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_HEAD:
            raise HeadTooLarge

    def _close_behind_answers(self) -> None:
        """Read nothing more, and close behind the answer to the last request that waits."""
        log.info("a connection is closed: more than %d requests waited on it for their answers", MAX_WAITING)
        self._wait_no_more()
        self.cycle.keep_alive = False

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
        self._refused = True
        self._wait_no_more()
        self.linger()

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

    def _watch(self) -> None:
        if self._unread is None:
            self._unread_size = self._buffered()
            self._unread = self.loop.call_later(self.send_s, self._look)

    def _watch_no_more(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        """Drop the connection, unless its client has read some of what waited for it."""
        self._unread = None
        if self._unread_size - self._buffered() >= MIN_READ:
            self._watch()
            return
        log.info("a connection was dropped: its client did not read what was sent to it in %.0f s", self.send_s)
        sock: socket.socket = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        cast("Any", self.transport).abort()

    def _buffered(self) -> int:
        """Bytes that the system has not taken for the client yet."""
        return cast("asyncio.WriteTransport", self.transport).get_write_buffer_size()


def bounded_connections(header_s: float, send_s: float) -> type[BoundedConnection]:
    """The protocol with these times in seconds: for the head of a request, and for the client to read.

    uvicorn makes the connections, and takes nothing but the class.
    """
    return type("BoundedConnection", (BoundedConnection,), {"header_s": header_s, "send_s": send_s})
