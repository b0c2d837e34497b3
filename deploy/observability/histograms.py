"""Histograms of a worker: views of the durations that it has measured."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from eunoe.deploy.observability.counters import stage_calls
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.workers.models.questions.buckets import Buckets
from eunoe.workers.registry import STAGES

Durations = Iterable[tuple[tuple[str, ...], Buckets]]
"""Label values and the durations of each histogram."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram."""

    name: str
    labels: tuple[str, ...]
    help: str
    read: Callable[[MetricSources], Durations]


def _parts(sources: MetricSources) -> Durations:
    for stage, meter in sources.meter.stages.items():
        for part, durations in meter.parts.items():
            yield (stage, part.value.removesuffix("_s")), durations


def _asks(sources: MetricSources) -> Durations:
    for stage, meter in sources.meter.stages.items():
        if STAGES[stage].answers:
            yield from (((stage, hop.value), durations) for hop, durations in meter.asks.items())


def _freshness(sources: MetricSources) -> Durations:
    return (((stage,), meter.freshness) for stage, meter in sources.meter.stages.items() if not STAGES[stage].answers)


def _model_seconds(sources: MetricSources) -> Durations:
    calls = stage_calls(sources.meter.language)
    return (((stage,), durations) for stage, durations in calls.seconds.items())


HISTOGRAMS: Final = (
    Histogram("eunoe_stage_seconds", ("stage", "part"), "Single durations of these parts of the work", _parts),
    Histogram(
        "eunoe_ask_seconds",
        ("stage", "hop"),
        "Asks: from their arrival in the stage's topic (stage) or in the log (whole) to the commit",
        _asks,
    ),
    Histogram(
        "eunoe_freshness_seconds",
        ("stage",),
        "From the end of a session to the commit of what the stage makes of it",
        _freshness,
    ),
    Histogram("eunoe_model_seconds", ("stage",), "Questions to the model, with their retries", _model_seconds),
)
"""Histograms, of seconds. All their counts are there from the start, as zeros."""
