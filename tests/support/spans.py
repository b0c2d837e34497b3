"""Spans of a test's own process, kept in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from eunoe.streams import tracing
from eunoe.streams.tracer import OpenTelemetryTracer


class Spans:
    """What was traced."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def ended(self, name: str = "") -> list[ReadableSpan]:
        """The spans that have ended, or those of a name."""
        return [span for span in self._exporter.get_finished_spans() if name in ("", span.name)]

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (span,) = self.ended(name)
        return span


@contextmanager
def traced(secret: bytes | None = b"secret", sampler: Sampler | None = None) -> Iterator[Spans]:
    """Trace the body."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.install(OpenTelemetryTracer(provider.get_tracer("test"), secret))
    try:
        yield Spans(exporter)
    finally:
        tracing.install(None)
