"""Health of a gateway's process: /live, /ready and /metrics, from its start on."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from eunoe.deploy.gateway.app import GatewayApp
from eunoe.deploy.gateway.meter import GatewayMeter
from eunoe.deploy.observability.exposition import CONTENT_TYPE
from eunoe.deploy.observability.server import Page, serve_pages
from eunoe.schemas.errors import Unavailable
from eunoe.workers.runner.backoff import Outages

log = logging.getLogger(__name__)


@dataclass(slots=True)
class GatewayHealth:
    """The state of a gateway's process."""

    app: GatewayApp | None = None
    """The application; `None` while it waits for its servers."""
    outages: Outages = field(default_factory=Outages)
    """The servers that it waits for at its start."""

    def why_not_ready(self) -> list[str]:
        """The reasons why no requests should be sent to it, in words."""
        if self.app is None:
            return [f"starting: it waits for {', '.join(self.outages.waiting()) or 'its servers'}"]
        why = ["closing"] if self.app.gateway.closing.is_set() else []
        try:
            if not self.app.gateway.log().healthy:
                why.append("Kafka did not answer the last request")
        except Unavailable as fault:
            why.append(str(fault))
        return why

    def metrics(self) -> bytes:
        """All metrics; of a gateway that waits for its servers, that it is there and what it waits for."""
        if self.app is not None:
            return self.app.meter.text()
        registry = CollectorRegistry()
        waits = Gauge("eunoe_waiting", "Current waits for a server", ["server"], registry=registry)
        for server, count in self.outages.waiting().items():
            waits.labels(server).set(count)
        return GatewayMeter().text() + generate_latest(registry)

    @asynccontextmanager
    async def served(self, address: str | None) -> AsyncIterator[None]:
        """Serve it during the block, where an address is set; raises `Refused` for one that is invalid or in use."""
        if address is None:
            yield
            return
        async with serve_pages(_pages(self), address) as url:
            log.info("health: %s/live, %s/ready, %s/metrics", url, url, url)
            yield


def _pages(health: GatewayHealth) -> dict[str, Page]:
    async def live(_: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def ready(_: web.Request) -> web.Response:
        why = health.why_not_ready()
        return web.json_response({"ready": not why, "why": why}, status=503 if why else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=health.metrics(), headers={"Content-Type": CONTENT_TYPE})

    return {"/live": live, "/ready": ready, "/metrics": metrics}
