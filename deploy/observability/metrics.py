"""What a worker has counted, in the text format of Prometheus. Nothing is counted twice: these are views."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eunoe.deploy.observability.counters import WorkerMeter, model_document
from eunoe.deploy.observability.health import HealthState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels, and the number."""


@dataclass(frozen=True, slots=True)
class MetricSources:
    """Where the numbers come from."""

    meter: WorkerMeter
    health: HealthState


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric."""

    name: str
    """A counter's ends in ``_total``."""
    labels: tuple[str, ...]
    told: str
    read: Callable[[MetricSources], Samples]


def _live(watched: MetricSources) -> Samples:
    yield (), float(watched.health.report().live)


def _ready(watched: MetricSources) -> Samples:
    yield (), float(watched.health.report().ready)


def _lag(watched: MetricSources) -> Samples:
    for stage, progress in watched.health.progress_of.items():
        for (topic, partition), lag in progress.lag().items():
            yield (stage, topic, str(partition)), lag


def _in_work(watched: MetricSources) -> Samples:
    return (((stage,), consumer.dispatcher.in_work) for stage, consumer in watched.meter.consumers.items())


def _queued(watched: MetricSources) -> Samples:
    return (((stage,), consumer.dispatcher.queued) for stage, consumer in watched.meter.consumers.items())


def _of_stage(name: str) -> Callable[[MetricSources], Samples]:
    def read(watched: MetricSources) -> Samples:
        return (((stage,), float(getattr(meter, name))) for stage, meter in watched.meter.stages.items())

    return read


def _seconds(watched: MetricSources) -> Samples:
    for stage, meter in watched.meter.stages.items():
        for part in ("waiting", "deciding", "applying", "publishing"):
            yield (stage, part), getattr(meter, f"{part}_s")


def _given_back(watched: MetricSources) -> Samples:
    return (((stage,), progress.given_back) for stage, progress in watched.health.progress_of.items())


def _letters(watched: MetricSources) -> Samples:
    return watched.health.letters.items()


def _waits(watched: MetricSources) -> Samples:
    return (((server,), count) for server, count in watched.health.outages.waits.items())


def _waiting(watched: MetricSources) -> Samples:
    now = watched.health.outages.waiting()
    return (((server,), now.get(server, 0)) for server in watched.health.outages.waits)


def _of_model(*names: str) -> Callable[[MetricSources], Samples]:
    def read(watched: MetricSources) -> Samples:
        counted = model_document(watched.meter.language)
        return (((), counted[name]) for name in names if name in counted)

    return read


def _tokens(watched: MetricSources) -> Samples:
    counted = model_document(watched.meter.language)
    return (((kind,), counted[f"{kind}_tokens"]) for kind in ("prompt", "completion") if counted)


METRICS: Final = (
    Definition("eunoe_live", (), "1: it does its work; 0: it has work and does none of it", _live),
    Definition("eunoe_ready", (), "1: started, and no server is waited for", _ready),
    Definition("eunoe_lag", ("stage", "topic", "partition"), "Records not done, of partitions of this process", _lag),
    Definition("eunoe_in_work", ("stage",), "Records whose handler runs", _in_work),
    Definition("eunoe_queued", ("stage",), "Records that wait for their conversation or a slot", _queued),
    Definition("eunoe_events_total", ("stage",), "Records handled to their end", _of_stage("events")),
    Definition("eunoe_ignored_total", ("stage",), "Of these, applied before: delivered again", _of_stage("ignored")),
    Definition("eunoe_given_back_total", ("stage",), "Records given back un-acknowledged", _given_back),
    Definition("eunoe_commits_total", ("stage",), "Decisions committed", _of_stage("commits")),
    Definition("eunoe_fenced_total", ("stage",), "Commits refused: another process was first", _of_stage("fenced")),
    Definition("eunoe_seconds_total", ("stage", "part"), "Where the seconds of records go, summed", _seconds),
    Definition("eunoe_dead_letters_total", ("stage", "reason"), "Records set aside", _letters),
    Definition("eunoe_waits_total", ("server",), "How often a record began to wait for a server", _waits),
    Definition("eunoe_waiting", ("server",), "Records that wait for a server now", _waiting),
    Definition("eunoe_model_calls_total", (), "Questions to the language model", _of_model("calls")),
    Definition("eunoe_model_corrections_total", (), "Questions asked again, fault named", _of_model("corrections")),
    Definition("eunoe_model_retries_total", (), "Requests sent again", _of_model("retries")),
    Definition("eunoe_model_invalid_total", (), "Answers that were not of the form", _of_model("invalid")),
    Definition("eunoe_model_tokens_total", ("kind",), "Tokens, prompt and completion", _tokens),
)
"""Every metric. All begin at 0 with the process."""


class WorkerCollector(Collector):
    """Reads everything at the moment of the scrape."""

    def __init__(self, watched: MetricSources) -> None:
        self.watched = watched

    def collect(self) -> Iterator[Metric]:
        """One family per definition."""
        for definition in METRICS:
            counts = definition.name.endswith("_total")
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(
                definition.name, definition.told, labels=definition.labels
            )
            for labels, value in definition.read(self.watched):
                family.add_metric(labels, value)
            yield family


def metrics_text(watched: MetricSources) -> bytes:
    """All metrics now."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(watched))
    return generate_latest(registry)
