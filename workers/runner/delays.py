"""Delays of what a stage has committed: of an ask on its way, of a session on its way into memory."""

from datetime import datetime

from eunoe.streams.record import Record
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.metrics import Hop, StageMeter
from eunoe.workers.stage import ApplyOrder, StageSpec


def note_delays(meter: StageMeter, spec: StageSpec, ordered: OrderedEvent, record: Record, now: datetime) -> None:
    """Count the delays of an event that was committed at ``now``, in its turn and for the first time.

    ``record`` is the event's, or the last one of its session where the stage gathers.
    """
    if ordered.asks or spec.order is ApplyOrder.REQUEST:
        meter.asks[Hop.STAGE].add(now.timestamp() - record.timestamp_ms / 1000)
        meter.asks[Hop.WHOLE].add((now - ordered.log_time).total_seconds())
    elif spec.order is ApplyOrder.SESSION and (ended := getattr(ordered.event, "known_from", None)) is not None:
        meter.freshness.add((now - ended).total_seconds())
