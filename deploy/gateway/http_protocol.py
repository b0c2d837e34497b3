"""HTTP/1.1 connections whose headers must come in time; uvicorn alone bounds only the silence between requests."""

import asyncio
import logging
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)


class TimedHeaders(HttpToolsProtocol):
    """Drops a connection whose first request, or whose next one once begun, has no whole headers after some time."""

    header_s = 20.0
    """Seconds; see `timed_headers`."""
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_more()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Wait for the rest of the headers."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """Wait no longer; the body has a time limit of its own."""
        self._wait_no_more()
        super().on_headers_complete()

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


def timed_headers(seconds: float) -> type[TimedHeaders]:
    """The protocol with this limit; uvicorn makes the connections, and takes nothing but the class."""
    return type("TimedHeaders", (TimedHeaders,), {"header_s": seconds})
