"""Traces of a process: switched on by ``EUNOE_TRACES__ENDPOINT``; without it OpenTelemetry is not even imported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Final

from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.streams import tracing

EXTRA: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def check_extra() -> None:
    """Raise `Refused` where the extra ``otel`` is not installed. Importing it takes a quarter of a second."""
    try:
        import_module(EXTRA)
    except ImportError:
        raise Refused(
            "EUNOE_TRACES__ENDPOINT is set, and the extra `otel` is not installed: pip install 'eunoe[otel]',"
            " or unset it"
        ) from None


@asynccontextmanager
async def traced(settings: Settings, process: str) -> AsyncIterator[None]:
    """Trace the body where an endpoint is set; ``process`` names the service: ``worker``, ``gateway``.

    Raises `Refused` where the extra is missing. A collector that is away loses spans, and costs nothing else.
    """
    if settings.traces.endpoint is None:
        yield
        return
    await asyncio.to_thread(check_extra)
    from eunoe.deploy.observability.otlp import open_tracer  # noqa: PLC0415 - needs the extra

    tracer, close = open_tracer(settings.traces, process, settings.prefix)
    tracing.install(tracer)
    try:
        yield
    finally:
        tracing.install(None)
        await asyncio.to_thread(close)
