"""`Tracer` for OpenTelemetry, over its API alone: a program that has an SDK traces its events with that one."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.status import Status, StatusCode

from eunoe.streams.tracing import MAX_LINKS, Attribute, Attributes, SpanKind, TraceSpan

NAME: Final = "eunoe"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.38.0"
"""The version of the semantic conventions that attributes follow."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?", re.ASCII)
_KINDS: Final = {kind: trace.SpanKind[kind.value] for kind in SpanKind}


class OpenTelemetryTracer:
    """Makes spans with a tracer of OpenTelemetry; unless one is given, with that of the program's own provider.

    ``secret`` keys the hashes that stand for conversations; `None` means that spans do not name them.
    """

    def __init__(self, tracer: trace.Tracer | None = None, secret: bytes | None = None) -> None:
        self._tracer = tracer or trace.get_tracer(NAME, schema_url=SCHEMA_URL)
        self._secret = None if secret is None else hashlib.blake2b(secret, digest_size=32).digest()

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str | None, begun_ns: int | None
    ) -> Iterator[TraceSpan]:
        """A span; a fault that ends it is named by its class alone, because its text may be of users."""
        context = None if parent is None else _context_of(read_traceparent(parent))
        made = self._tracer.start_span(
            name, context, _KINDS[kind], dict(attributes), start_time=begun_ns, record_exception=False
        )
        try:
            with trace.use_span(made, record_exception=False, set_status_on_exception=False):
                yield _Span(made)
        except BaseException as fault:
            made.set_attribute("error.type", type(fault).__qualname__)
            made.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            made.end()

    def current(self) -> TraceSpan | None:
        """The current span."""
        here = trace.get_current_span()
        return _Span(here) if here.get_span_context().is_valid else None

    def name_of(self, key: str) -> str | None:
        """The keyed hash of a conversation's key, 16 hexadecimal digits."""
        if self._secret is None:
            return None
        return hashlib.blake2b(key.encode(), key=self._secret, digest_size=8).hexdigest()


def _context_of(remote: trace.SpanContext | None) -> Context:
    """The context of a span elsewhere; `None` means the beginning of a trace."""
    return Context() if remote is None else trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())


def read_traceparent(text: str) -> trace.SpanContext | None:
    """The span that a ``traceparent`` names; `None` for any other text."""
    found = _TRACEPARENT.fullmatch(text) if len(text) < 256 else None
    if found is None or text.startswith("ff"):
        return None
    trace_id, span_id, flags = found.groups()
    context = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16) & 0x03))
    return context if context.is_valid else None


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str | None:
        context = self._span.get_span_context()
        if not context.is_valid:  # a program without an SDK
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, name: str, value: Attribute) -> None:
        self._span.set_attribute(name, value)

    def link(self, traceparents: Sequence[str]) -> None:
        for text in traceparents[-MAX_LINKS:]:
            context = read_traceparent(text)
            if context is not None:
                self._span.add_link(context)
