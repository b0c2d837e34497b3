"""Metrics of the gateway, in the text format of Prometheus."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class GatewayMeter:
    """Counts requests and streams."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "eunoe_gateway_requests_total", "Requests answered", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "eunoe_gateway_seconds",
            "Seconds until the answer, of a stream until its beginning",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._streams = Gauge("eunoe_gateway_streams", "Open streams", registry=self._registry)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def watch_streams(self, count: Callable[[], float]) -> None:
        """Read the number of open streams at each scrape."""
        self._streams.set_function(count)

    def text(self) -> bytes:
        """The current values."""
        return generate_latest(self._registry)
