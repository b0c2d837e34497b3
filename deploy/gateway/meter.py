"""Metrics of the gateway, in the text format of Prometheus."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from eunoe.workers.runner.metrics import ASK_S

REQUESTS, SECONDS, STREAMS = "eunoe_gateway_requests_total", "eunoe_http_seconds", "eunoe_gateway_streams"
LABELS: Final = {REQUESTS: ("route", "status"), SECONDS: ("route", "method", "status"), STREAMS: ()}
"""Metric → its labels."""
FAULTS: Final = (429, 500, 503)
"""Statuses that are counted from the start."""
STATUS_CLASSES: Final = ("2xx", "4xx", "5xx")


def _route_and_method(route: str) -> tuple[str, str]:
    """``POST /v1/events`` → the path and the method; what is no route of the table has no method."""
    method, _, path = route.partition(" ")
    return (path, method) if path else (route, "")


class GatewayMeter:
    """Counts requests and streams."""

    def __init__(self, routes: Iterable[str] = ()) -> None:
        """``routes``: method and path of those whose counts are there from the start, as zeros."""
        self._registry = CollectorRegistry()
        self._requests = Counter(REQUESTS, "Requests answered", LABELS[REQUESTS], registry=self._registry)
        self._seconds = Histogram(
            SECONDS,
            "Seconds until the answer, of a stream until its beginning",
            LABELS[SECONDS],
            buckets=ASK_S,
            registry=self._registry,
        )
        self._streams = Gauge(STREAMS, "Open streams", registry=self._registry)
        for route in routes:
            for status in FAULTS:
                self._requests.labels(route, status)
            for kind in STATUS_CLASSES:
                self._seconds.labels(*_route_and_method(route), kind)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(*_route_and_method(route), f"{status // 100}xx").observe(seconds)

    def watch_streams(self, count: Callable[[], float]) -> None:
        """Read the number of open streams at each scrape."""
        self._streams.set_function(count)

    def text(self) -> bytes:
        """The current values."""
        return generate_latest(self._registry)
