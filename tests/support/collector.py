"""A collector of traces: takes OTLP over HTTP, and keeps the spans."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class SeenSpan:
    """A span as it came."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    begun_ms: float
    ended_ms: float
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    """Trace and span of each."""
    failed: bool = False


@dataclass
class Collector:
    """What came."""

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)

    def trace(self, trace: str) -> list[SeenSpan]:
        """The spans of a trace, in the order of their beginnings."""
        return sorted((span for span in self.spans if span.trace == trace), key=lambda span: span.begun_ms)

    def tree(self, trace: str) -> Iterator[str]:
        """The spans of a trace, each below its parent: begin and duration in milliseconds, name, stage."""
        spans = self.trace(trace)
        known, start = {span.id for span in spans}, spans[0].begun_ms

        def below(parent: str | None, depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent == parent if parent is not None else span.parent not in known:
                    links = f" links={len(span.links)}" if span.links else ""
                    stage = span.attributes.get("eunoe.stage", "")
                    took = span.ended_ms - span.begun_ms
                    yield f"{span.begun_ms - start:8.1f} {took:7.1f} {'  ' * depth}{span.name} {stage}{links}"
                    yield from below(span.id, depth + 1)

        return below(None, 0)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector on a free port."""
    collector = Collector()

    async def take(request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            service = next(one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
            for scope in resource.scope_spans:
                collector.spans += [_seen(span, service) for span in scope.spans]
        return web.Response(body=ExportTraceServiceResponse().SerializeToString())

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/v1/traces", take)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield collector
    finally:
        await runner.cleanup()


def _seen(span: Any, service: str) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        service=service,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        begun_ms=span.start_time_unix_nano / 1e6,
        ended_ms=span.end_time_unix_nano / 1e6,
        attributes={one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        failed=span.status.code == 2,
    )
