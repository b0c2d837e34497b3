"""Puts a stage together: its decision, the runner, its consumer, and those who watch it."""

from dataclasses import dataclass, replace

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.health import CountingPublisher, HealthState
from eunoe.deploy.process.positions import remember_position, start_position
from eunoe.deploy.settings import Settings
from eunoe.streams.group.stage_consumer import StageConsumer, StageOptions
from eunoe.streams.record import Record
from eunoe.workers.intake.idle import IdleCloser
from eunoe.workers.registry import STAGES, build_stage
from eunoe.workers.runner.batches import MAX_BATCH
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import ApplyOrder


@dataclass(frozen=True, slots=True)
class StageFactory:
    """What the stages of a process share."""

    settings: Settings
    clients: Clients
    place: LogPlace
    meter: WorkerMeter
    health: HealthState

    def app(self, name: str) -> StageConsumer:
        """A stage with its consumer, not started yet."""
        spec, progress = STAGES[name], self.health.progress(name)
        from_log, interactive = spec.order is ApplyOrder.POSITION, spec.answers
        log_positions, epoch, outages = self.clients.log_positions, self.settings.log_epoch, self.health.outages
        retry_limit_s = self.settings.patience_seconds
        options = StageOptions(
            before_ack=remember_position(log_positions, epoch, outages, retry_limit_s) if from_log else None,
            start_position=start_position(log_positions, epoch, outages) if from_log else None,
            barrier=_is_control if from_log else _is_none,
            concurrency=self.settings.slots,
            # who decides its records one by one would only have a rebalance wait for more of them
            batch=MAX_BATCH if from_log else 1,
            # somebody waits for what the others do: what only remembers steps back for them
            overloaded=lambda: not interactive and self.meter.loop.is_overloaded,
            loop_lag_s=lambda: self.meter.loop.recent_s,
            interactive=interactive,
        )
        handle = progress.watched(self._runner(name).handle_batch)
        app = StageConsumer(name, spec.inputs, self.settings.kafka_settings, self.settings.names, handle, options)
        self.meter.apps[name] = app
        self.clients.publisher.notify_after(spec.inputs, app.pacing.notify)
        return app

    def _runner(self, name: str) -> Runner:
        publisher = CountingPublisher(self.clients.publisher, self.health)
        sender = replace(self.clients.sender, meter=self.meter.stage(name), publisher=publisher)
        stage = build_stage(name, self.clients.dependencies)
        parking, settings = self.clients.store, self.settings.runner
        return Runner(STAGES[name], stage, sender, parking, self.place, settings, outages=self.health.outages)

    def idle_closer(self, app: StageConsumer) -> IdleCloser:
        """Closes the idle sessions of the partitions that are intake's here."""

        def caught_up() -> list[int]:
            return [partition for topic, partition in app.assigned() if app.caught_up(topic, partition)]

        clients, settings = self.clients, self.settings.intake
        outages, answers = self.health.outages, self.place.answers
        return IdleCloser(
            clients.log_positions, clients.publisher, caught_up, settings, outages=outages, answers=answers
        )


def _is_control(record: Record) -> bool:
    """Records of the log without a key concern their whole partition."""
    return record.key is None


def _is_none(_record: Record) -> bool:
    return False
