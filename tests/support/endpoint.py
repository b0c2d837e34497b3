"""Serves any ASGI application on a free port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from eunoe.deploy.gateway.server import GatewayServer


@asynccontextmanager
async def asgi_served(app: ASGIApp) -> AsyncIterator[str]:
    """Serve during the block; gives the URL."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_config=None, access_log=False)
    server = GatewayServer(config)
    sock = config.bind_socket()
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
