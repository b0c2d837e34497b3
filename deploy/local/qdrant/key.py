"""The API key of the embedded Qdrant, checked as Qdrant checks it."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

API_KEY: Final = "QDRANT__SERVICE__API_KEY"
"""The environment variable with the key, as for a Qdrant server."""
_OPEN: Final = frozenset({"/", "/readyz", "/healthz", "/livez"})
"""Paths without a check, for probes."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def key_check(key: str) -> Middleware:
    """A middleware that answers 401 to requests without the key, in the words of Qdrant."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN:
            return await handler(request)
        given = request.headers.get("api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not given:
            return web.Response(status=401, text="Must provide an API key or an Authorization bearer token")
        if not hmac.compare_digest(given.encode(errors="replace"), key.encode()):
            return web.Response(status=401, text="Invalid API key or JWT")
        return await handler(request)

    return check
