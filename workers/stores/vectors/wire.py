"""JSON over HTTP to one server for frequent requests: byte bodies over keep-alive connections of aiohttp.

qdrant-client validates a pydantic model of every request and answer, which takes several times as long as the request
itself.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import getproxies

import aiohttp
import orjson

from eunoe.streams.trust import trusted_servers
from eunoe.workers.stores.redis.connection import is_closed

KEEP_ALIVE_S: Final = 4.0
"""Seconds that an idle connection stays open: fewer than at the server, which could close it during a request."""
STREAMED_BYTES: Final = 2**19
"""Size from which a body is sent in pieces."""


class NoAnswer(Exception):
    """The server gave no answer, or an incomplete one; see the cause."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's response."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Case-insensitive."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """Timeouts and the number of connections."""

    connections: int = 100
    connect_s: float = 30.0
    read_s: float = 30.0
    """Seconds to wait for the next byte of the answer."""


class JsonHttpClient:
    """Sends JSON to the server at ``address``. The session opens at the first request, inside the running loop."""

    def __init__(self, address: str, headers: Mapping[str, str], bounds: Bounds) -> None:
        self.address = address.rstrip("/")
        self._headers = {"content-type": "application/json", **{name.lower(): text for name, text in headers.items()}}
        self._bounds = bounds
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None) -> HttpResponse:
        """Send a request and return the response, whatever its status. NumPy arrays are sent as lists.

        Raises `NoAnswer` where no complete response comes.
        """
        content = b"" if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        data = io.BytesIO(content) if len(content) > STREAMED_BYTES else content
        try:
            # elsewhere neither the key nor what is stored is sent
            async with self._opened().request(method, self.address + path, data=data, allow_redirects=False) as answer:
                return HttpResponse(answer.status, answer.reason or "", answer.headers, await answer.read())
        except (aiohttp.ClientError, OSError) as fault:
            raise NoAnswer from fault
        except RuntimeError as fault:
            if not is_closed(fault):
                raise
            raise NoAnswer from fault

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            bounds, secure = self._bounds, self.address.startswith("https:")
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=bounds.connections,
                    keepalive_timeout=KEEP_ALIVE_S,
                    ssl=trusted_servers() if secure else True,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=bounds.connect_s, sock_read=bounds.read_s),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=bool(getproxies()),  # aiohttp would look it up for every request
            )
        return self._session
