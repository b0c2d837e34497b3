"""HTTP server of a worker: ``/live``, ``/ready``, ``/metrics``."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from eunoe.deploy.observability.exposition import CONTENT_TYPE, metrics_text
from eunoe.deploy.observability.health import HealthReport
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.schemas.errors import Refused

SETTING = "EUNOE_HEALTH"
LOOPBACK = "127.0.0.1"
Page = Callable[[web.Request], Awaitable[web.Response]]


def parse_address(text: str, setting: str = SETTING) -> tuple[str, int]:
    """Parse ``host:port`` or a port alone, which means the loopback address. Raises `Refused`."""
    host, _, port = text.rpartition(":")
    if not (port.isdecimal() and port.isascii() and int(port) < 65_536):
        raise Refused(f"{setting} is {text!r:.80}: use HOST:PORT or PORT; port 0 is any free one")
    return host.strip("[]") or LOOPBACK, int(port)


@asynccontextmanager
async def serve_health(sources: MetricSources, address: str | None) -> AsyncIterator[str | None]:
    """Serve during the body; yields the URL, or `None` where no address is set.

    Raises `Refused` where the address is invalid or in use.
    """
    if address is None:
        yield None
        return
    async with serve_pages(_pages(sources), address) as url:
        yield url


@asynccontextmanager
async def serve_pages(pages: Mapping[str, Page], address: str) -> AsyncIterator[str]:
    """Serve pages by their paths during the body; yields the URL. Raises `Refused` as `serve_health` does."""
    app = web.Application()
    app.add_routes([web.get(path, page) for path, page in pages.items()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        yield await _listen(runner, *parse_address(address))
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    """Listen there; returns the URL. Raises `Refused` where the address is in use."""
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise Refused(f"{SETTING}: cannot listen on {host}:{port}: {error.strerror}") from None
    bound = runner.addresses[0]
    return f"http://{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"


def _pages(sources: MetricSources) -> dict[str, Page]:
    async def live(_: web.Request) -> web.Response:
        report = sources.health.report()
        return _answer(report, good=report.live)

    async def ready(_: web.Request) -> web.Response:
        report = sources.health.report()
        return _answer(report, good=report.ready)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics_text(sources), headers={"Content-Type": CONTENT_TYPE})

    return {"/live": live, "/ready": ready, "/metrics": metrics}


def _answer(report: HealthReport, *, good: bool) -> web.Response:
    body = orjson.dumps(report.document(), option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(body=body, status=200 if good else 503, content_type="application/json")
