"""Metrics in the text format of Prometheus."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from eunoe.deploy.observability.histograms import HISTOGRAMS
from eunoe.deploy.observability.metrics import METRICS, MetricSources

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class WorkerCollector(Collector):
    """Reads all counters at each scrape."""

    def __init__(self, sources: MetricSources) -> None:
        self.sources = sources

    def collect(self) -> Iterator[Metric]:
        """Give one family per definition."""
        for definition in METRICS:
            counts = definition.name.endswith("_total")
            family = (CounterMetricFamily if counts else GaugeMetricFamily)(
                definition.name, definition.help, labels=definition.labels
            )
            for labels, value in definition.read(self.sources):
                family.add_metric(labels, value)
            yield family
        for histogram in HISTOGRAMS:
            shown = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
            for labels, durations in histogram.read(self.sources):
                shown.add_metric(labels, durations.cumulative(), durations.sum_s)
            yield shown


def metrics_text(sources: MetricSources) -> bytes:
    """The current values of all metrics."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(sources))
    return generate_latest(registry)
