"""Answers to requests of HTTP/1.0, which has no chunks (RFC 9112, 6.1): one without a length ends the connection."""

from typing import cast

from starlette.types import Message
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class UnchunkedSend:
    """Takes the place of a request's ``send``. uvicorn writes chunks into each answer without a length."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._send = cycle.send
        self._has_length = True

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self._has_length = any(name.lower() == b"content-length" for name, _ in message["headers"])
            if not self._has_length:
                self._cycle.chunked_encoding = False
        elif not self._has_length:
            self._cycle.expected_content_length = len(message["body"])  # as much as comes
        await self._send(cast("ASGISendEvent", message))
