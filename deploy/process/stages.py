"""Assembles a stage in a worker: its decision, its runner, its consumer, its meters and its background work."""

from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.health import CountingPublisher, HealthState
from eunoe.deploy.process.positions import remember_position, start_position
from eunoe.deploy.settings import Settings
from eunoe.streams.group.stage_consumer import StageConsumer, StageOptions
from eunoe.streams.record import Record
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.batches import MAX_BATCH
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.periodic import run_periodically
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import BackgroundContext, StageSpec


@dataclass(frozen=True, slots=True)
class StageFactory:
    """Builds the stages of a process over the clients that they share."""

    settings: Settings
    clients: Clients
    place: LogPlace
    meter: WorkerMeter
    health: HealthState

    def consumer(self, name: str) -> StageConsumer:
        """A stage with its consumer, not started yet."""
        spec, progress = STAGES[name], self.health.progress(name)
        handle = progress.watched(self._runner(spec).handle_batch)
        kafka, names = self.settings.kafka_settings, self.settings.names
        consumer = StageConsumer(name, spec.inputs, kafka, names, handle, self._options(spec))
        self.meter.consumers[name] = consumer
        self.clients.publisher.notify_after(spec.inputs, consumer.notify)
        return consumer

    def _options(self, spec: StageSpec) -> StageOptions:
        log_positions, epoch, outages = self.clients.log_positions, self.settings.log_epoch, self.health.outages
        shared = StageOptions(
            concurrency=self.settings.slots,
            # backpressure: stages that nobody waits for yield to those that answer
            overloaded=lambda: not spec.answers and self.meter.loop.is_overloaded,
            loop_lag_s=lambda: self.meter.loop.recent_s,
            interactive=spec.answers,
        )
        if not spec.reads_log:
            return shared
        return replace(
            shared,
            before_ack=remember_position(log_positions, epoch, outages, self.settings.patience_seconds),
            start_position=start_position(log_positions, epoch, outages),
            barrier=_is_control,
            # the other stages decide record by record: a larger batch would only prolong a rebalance
            batch=MAX_BATCH,
        )

    def _runner(self, spec: StageSpec) -> Runner:
        publisher = CountingPublisher(self.clients.publisher, self.health)
        sender = replace(self.clients.sender, meter=self.meter.stage(spec.name), publisher=publisher)
        stage = spec.build(self.clients.dependencies)
        parking, settings = self.clients.store, self.settings.runner
        return Runner(spec, stage, sender, parking, self.place, settings, outages=self.health.outages)

    def background(self, name: str, consumer: StageConsumer) -> Iterator[Coroutine[Any, Any, None]]:
        """The background work of a stage, over the partitions that its consumer is assigned."""

        def caught_up() -> list[int]:
            return [partition for topic, partition in consumer.assigned() if consumer.caught_up(topic, partition)]

        clients = self.clients
        context = BackgroundContext(
            clients.dependencies.settings, clients.log_positions, clients.publisher, caught_up, self.place.answers
        )
        for build in STAGES[name].background:
            yield run_periodically(build(context), self.health.outages)


def _is_control(record: Record) -> bool:
    """Whether a record of the log concerns its whole partition: a promotion, by its looks."""
    return record.key is None and b"generation_promoted" in record.value
