"""Traces: the spans of the work on an event, and the context that its records carry (W3C Trace Context, level 1).

Nothing is traced until a `Tracer` is installed; a span then costs a look at a variable. `eunoe.streams.tracer` has the
one for OpenTelemetry. Attributes hold no text of users and no keys: traces lie where no erasure reaches.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import Final, Protocol

from eunoe.streams.record import Record

TRACE_HEADER: Final = "traceparent"
"""The header of records and requests that names the span in which they came about; ``tracestate`` is not carried."""
MAX_LINKS: Final = 32
"""Links of one span."""
MAX_AGE_S: Final = 86_400.0
"""Seconds after which the work on a record does not belong to the trace of its making: a rebuild reads old ones."""

Attribute = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, Attribute]


class SpanKind(StrEnum):
    """The role of a span, as OpenTelemetry names it."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


class TraceSpan(Protocol):
    """A span that has begun."""

    @property
    def traceparent(self) -> str | None:
        """Its name for the headers of what comes about in it; `None` where nothing is traced."""
        ...

    def name(self, name: str) -> None:
        """Give it another name."""
        ...

    def set(self, name: str, value: Attribute) -> None:
        """Set an attribute."""
        ...

    def link(self, traceparents: Sequence[str]) -> None:
        """Link the span to others, at most `MAX_LINKS`."""
        ...


class Tracer(Protocol):
    """Port for the making of spans."""

    def span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str | None, begun_ns: int | None
    ) -> AbstractContextManager[TraceSpan]:
        """A span that is current during the body.

        ``parent``: the ``traceparent`` of its parent; `None` means the current span, any other text none.
        ``begun_ns``: nanoseconds since 1970; `None` means now.
        """
        ...

    def current(self) -> TraceSpan | None:
        """The current span; `None` outside of spans."""
        ...

    def name_of(self, key: str) -> str | None:
        """A name of a conversation that does not tell its key; `None` where no secret is set."""
        ...


class _NoSpan:
    traceparent = None

    def name(self, name: str) -> None:
        """Do nothing."""

    def set(self, name: str, value: Attribute) -> None:
        """Do nothing."""

    def link(self, traceparents: Sequence[str]) -> None:
        """Do nothing."""


_NO_SPAN: Final[TraceSpan] = _NoSpan()
_OFF: Final[AbstractContextManager[TraceSpan]] = nullcontext(_NO_SPAN)
_NONE: Final[Attributes] = {}

_tracer: Tracer | None = None


def install(tracer: Tracer | None) -> None:
    """Trace with this tracer from now on; `None` switches tracing off."""
    global _tracer
    _tracer = tracer


def is_on() -> bool:
    """Whether a tracer is installed."""
    return _tracer is not None


def span(
    name: str,
    attributes: Attributes = _NONE,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: str | None = None,
) -> AbstractContextManager[TraceSpan]:
    """A span that is current during the body; see `Tracer.span`."""
    return _OFF if _tracer is None else _tracer.span(name, kind, attributes, parent, None)


def step(name: str, attributes: Attributes = _NONE) -> AbstractContextManager[TraceSpan]:
    """A span of a call to a server, where it is part of a traced piece of work; background work makes none."""
    if _tracer is None or _tracer.current() is None:
        return _OFF
    return _tracer.span(name, SpanKind.CLIENT, attributes, None, None)


def current() -> TraceSpan:
    """The current span; outside of spans one that does nothing."""
    return (None if _tracer is None else _tracer.current()) or _NO_SPAN


def current_ids() -> tuple[str, str] | None:
    """The ids of the current trace and span, in hexadecimal; `None` outside of spans."""
    now = current().traceparent
    return None if now is None else (now[3:35], now[36:52])


def read_trace(record: Record) -> str | None:
    """The ``traceparent`` that a record carries, as it stands there; `None` where it has none."""
    carried = record.headers.get(TRACE_HEADER)
    return None if carried is None else carried.decode("latin-1")


@contextmanager
def processing(record: Record, stage: str) -> Iterator[TraceSpan]:
    """The span of a stage's work on a record, in the trace of the record's making.

    Before it stands a span of the time from the broker's append until now. The attributes are those of OpenTelemetry's
    messaging conventions 1.38, which are in development.
    """
    if _tracer is None:
        yield _NO_SPAN
        return
    made_in, now_ns = read_trace(record), time.time_ns()
    is_old = now_ns / 1e9 - record.timestamp_ms / 1e3 > MAX_AGE_S
    parent = "" if is_old or made_in is None else made_in
    attributes = _attributes_of(record, stage, _tracer)
    if parent and (appended_ns := record.timestamp_ms * 1_000_000) < now_ns:
        with _tracer.span(f"wait {record.topic}", SpanKind.INTERNAL, {"eunoe.stage": stage}, parent, appended_ns):
            pass
    with _tracer.span(f"process {record.topic}", SpanKind.CONSUMER, attributes, parent, None) as made:
        if is_old and made_in is not None:
            made.link([made_in])
        yield made


def _attributes_of(record: Record, stage: str, tracer: Tracer) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": str(record.topic),
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
        "eunoe.stage": stage,
    }
    conversation = None if record.key is None else tracer.name_of(record.key.decode(errors="replace"))
    if conversation is not None:
        attributes["eunoe.conversation"] = conversation
    return attributes
