"""The SDK of OpenTelemetry, and the export of spans by OTLP over HTTP. Needs the extra ``otel``."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from eunoe.deploy.observability.log_throttle import Throttle
from eunoe.deploy.settings import reveal
from eunoe.streams.settings import TraceSettings
from eunoe.streams.tracer import NAME, SCHEMA_URL, OpenTelemetryTracer

EXPORT_S: Final = 1.0
"""Time that the collector has for a batch of spans, and for all that is left at the end."""
QUIET_S: Final = 600.0
"""Interval of the messages about a collector that is away."""
_PATH: Final = "/v1/traces"
_LOGGERS: Final = ("opentelemetry.exporter", "opentelemetry.sdk")


def open_tracer(settings: TraceSettings, process: str, prefix: str) -> tuple[OpenTelemetryTracer, Callable[[], None]]:
    """A tracer that exports in a thread of its own, and what ends it within `EXPORT_S`.

    ``OTEL_EXPORTER_OTLP_HEADERS``, ``…_CERTIFICATE`` and ``OTEL_RESOURCE_ATTRIBUTES`` count, as for every program.
    """
    _quiet()
    address = (settings.endpoint or "").rstrip("/")
    exporter = OTLPSpanExporter(address if address.endswith(_PATH) else address + _PATH, timeout=EXPORT_S)
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.share)),
        resource=Resource.create({"service.name": f"{NAME}-{process}", "service.namespace": prefix}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    secret = reveal(settings.secret)
    tracer = provider.get_tracer(NAME, schema_url=SCHEMA_URL)
    return OpenTelemetryTracer(tracer, None if secret is None else secret.encode()), lambda: _close(provider)


def _close(provider: TracerProvider) -> None:
    """Export what is left; a collector that does not take it in time loses it."""
    closing = threading.Thread(target=provider.shutdown, name="traces-shutdown", daemon=True)
    closing.start()
    closing.join(EXPORT_S)


def _quiet() -> None:
    """Let one message of a kind through in `QUIET_S`: each batch that a collector does not take makes several."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, Throttle) for handler in logger.handlers):
            logger.propagate = False
            logger.addHandler(Throttle(QUIET_S))
