"""Metrics of the gateway, in the text format of Prometheus."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from eunoe.workers.runner.metrics import ASK_S

REQUESTS, SECONDS = "eunoe_gateway_requests_total", "eunoe_http_seconds"
STREAMS, WAITS = "eunoe_gateway_streams", "eunoe_gateway_waits"
ERASURES = "eunoe_erasures_oldest_seconds"
LABELS: Final = {
    REQUESTS: ("route", "status"),
    SECONDS: ("route", "method", "status"),
    STREAMS: (),
    WAITS: (),
    ERASURES: (),
}
"""Metric → its labels."""
FAULTS: Final = (429, 500, 503)
"""Statuses that are counted from the start."""
STATUS_CLASSES: Final = ("2xx", "4xx", "5xx")


def _route_and_method(route: str) -> tuple[str, str]:
    """``POST /v1/events`` → the path and the method; what is no route of the table has no method."""
    method, _, path = route.partition(" ")
    return (path, method) if path else (route, "")


class GatewayMeter:
    """Counts requests, streams and waits."""

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
        self._waits = Gauge(WAITS, "Requests that wait for an answer or a session", registry=self._registry)
        for route in routes:
            for status in FAULTS:
                self._requests.labels(route, status)
            for kind in STATUS_CLASSES:
                self._seconds.labels(*_route_and_method(route), kind)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(*_route_and_method(route), f"{status // 100}xx").observe(seconds)

    def watch_open(self, streams: Callable[[], float], waits: Callable[[], float]) -> None:
        """Read the numbers of open streams and of waiting requests at each scrape."""
        self._streams.set_function(streams)
        self._waits.set_function(waits)

    def watch_erasures(self, oldest: Callable[[], float]) -> None:
        """Show, from now on, for how many seconds the oldest erasure has waited, read at each scrape."""
        text = "Age of the oldest erasure that is neither done nor refused"
        Gauge(ERASURES, text, registry=self._registry).set_function(oldest)

    def text(self) -> bytes:
        """The current values."""
        return generate_latest(self._registry)
