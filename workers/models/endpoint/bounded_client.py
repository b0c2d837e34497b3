"""The HTTP client of an endpoint, which goes nowhere else, and reads no more of an answer than answers have.

Whoever answers may send without end, or a few kilobytes that unpack to gigabytes: each call would take memory for as
long as its time limit lets it.
"""

from typing import Any, Final

import httpx2
from openai import DefaultAioHttpClient

from eunoe.streams.trust import trusted_servers

ENCODINGS: Final = ("gzip", "deflate")
"""The packings that are asked for. Unpacking stops at the bound after each piece that came: of one in another packing,
or in several, a piece alone may unpack to gigabytes."""
_FRAMING: Final = ("content-encoding", "content-length", "transfer-encoding")


class AnswerTooLong(httpx2.TransportError):
    """An answer has more bytes than any answer, or is packed in a way that was not asked for."""


class BoundedClient(DefaultAioHttpClient):
    """The client of the SDK, with answers of at most ``most_bytes``, unpacked; a longer one raises `AnswerTooLong`.

    It follows no redirection: the prompt would go where nobody sent it.
    """

    def __init__(self, most_bytes: int, *, limits: httpx2.Limits, timeout: httpx2.Timeout) -> None:
        self._most_bytes = most_bytes
        super().__init__(limits=limits, timeout=timeout, verify=trusted_servers(), follow_redirects=False)

    def _init_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:  # noqa: ANN401 - handed on
        return _BoundedTransport(super()._init_transport(*args, **options), self._most_bytes)

    def _init_proxy_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:  # noqa: ANN401 - handed on
        return _BoundedTransport(super()._init_proxy_transport(*args, **options), self._most_bytes)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Reads and unpacks whole answers."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, most_bytes: int) -> None:
        self._transport = transport
        self._most_bytes = most_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, as if it had not been packed."""
        request.headers["Accept-Encoding"] = ", ".join(ENCODINGS)
        response = await self._transport.handle_async_request(request)
        try:
            content = await self._content(response)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _FRAMING]
        return httpx2.Response(response.status_code, headers=headers, content=content, extensions=response.extensions)

    async def _content(self, response: httpx2.Response) -> bytes:
        packing = response.headers.get("content-encoding", "identity").strip().casefold()
        if packing not in (*ENCODINGS, "identity", ""):
            raise AnswerTooLong("it is packed otherwise than was asked for")
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > self._most_bytes:
                raise AnswerTooLong(f"it has over {self._most_bytes} bytes")
        return bytes(content)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
