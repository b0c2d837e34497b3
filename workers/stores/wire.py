"""JSON over HTTP to one server, for requests that are many: bodies as bytes over kept connections of aiohttp.

qdrant-client builds and checks a model of every request and answer, which takes several times as long as the request
itself.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import getproxies

import aiohttp
import httpx2
import orjson

from eunoe.workers.stores.connection import is_closed

KEPT_S: Final = 4.0
"""Seconds that an idle connection is kept: fewer than a server keeps it, who would close it under a request."""
LARGE: Final = 2**19
"""Bytes from which on a body is sent in pieces."""


class NoAnswer(Exception):
    """The server gave no answer, or none that is whole; the cause says why."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server said."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Their names in any case."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long and how much."""

    connections: int = 100
    connect_s: float = 30.0
    read_s: float = 30.0
    """Seconds without a byte of the answer."""


class JsonHttpClient:
    """Sends JSON to the server at ``address``; opened at the first request, because it belongs to the running loop."""

    def __init__(self, address: str, headers: Mapping[str, str], bounds: Bounds) -> None:
        self.address = address.rstrip("/")
        self._headers = {"content-type": "application/json", **{name.lower(): text for name, text in headers.items()}}
        self._bounds = bounds
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> HttpResponse:
        """The answer, whatever its status; raises `NoAnswer` where there is none. Arrays of numpy go as lists."""
        content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        data = io.BytesIO(content) if len(content) > LARGE else content
        try:
            async with self._opened().request(method, self.address + path, data=data) as answer:
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
                    keepalive_timeout=KEPT_S,
                    ssl=httpx2.create_ssl_context() if secure else True,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=bounds.connect_s, sock_read=bounds.read_s),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=bool(getproxies()),  # looked up for every request
            )
        return self._session
