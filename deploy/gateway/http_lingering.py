"""Connections that end while their client still sends: closed at once, they would be reset, and the answer with them.

A client that sends its whole request before it reads, as Python's own does, would be told of the reset and not of 413.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

LINGER_S: Final = 5.0
"""Seconds for which a client may send what nobody reads."""


class LingeringConnection(HttpToolsProtocol):
    """A connection whose client gets the answer and its end first, where it has not sent the whole request."""

    _lingering: asyncio.TimerHandle | None = None

    @property
    def lingers(self) -> bool:
        """Whether all has been answered, and what still comes is thrown away."""
        return self._lingering is not None

    def on_headers_complete(self) -> None:
        """Begin the answer."""
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not None and self.cycle is not before:
            self.cycle.transport = _AnswerTransport(self, self.cycle)  # type: ignore[assignment]  # as much as it uses

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)

    def linger(self) -> None:
        """End the answers, and close when the client has closed, or after some time."""
        if self.lingers or self.transport.is_closing():
            return
        self.transport.write_eof()
        self._lingering = self.loop.call_later(LINGER_S, self.close_lingering)

    def close_lingering(self) -> None:
        """Close."""
        self.transport.close()


class _AnswerTransport:
    """The transport of one answer, at whose end the connection closes."""

    def __init__(self, connection: LingeringConnection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever uvicorn asks of a transport
        return getattr(self._connection.transport, name)

    def close(self) -> None:
        """Close, or linger where a part of the request has not come."""
        if self._cycle.more_body and self._cycle.response_complete:
            self._connection.linger()
        else:
            self._connection.transport.close()
