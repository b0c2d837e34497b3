"""Delays of what a stage has committed: of an ask on its way, of a session on its way into memory."""

from datetime import datetime

from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.metrics import Hop, StageMeter
from eunoe.workers.stage import ApplyOrder, StageSpec


def note_delays(meter: StageMeter, spec: StageSpec, ordered: OrderedEvent, now: datetime) -> None:
    """Count the delays of an event that was committed at ``now``, in its turn and for the first time.

    Where the stage gathers, ``ordered`` is the last one of its session.
    """
    if ordered.asks or spec.order is ApplyOrder.REQUEST:
        meter.asks[Hop.STAGE].add(now.timestamp() - ordered.record.timestamp_ms / 1000)
        meter.asks[Hop.WHOLE].add((now - ordered.log_time).total_seconds())
    elif spec.order is ApplyOrder.SESSION and (ended := getattr(ordered.event, "known_from", None)) is not None:
        meter.freshness.add((now - ended).total_seconds())
