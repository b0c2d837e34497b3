"""Assembles a stage in a worker: its decision, its runner, its consumer, its meters and its background work."""

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from eunoe.deploy.clients.bootstrap import DAY_S, Clients
from eunoe.deploy.clients.shared import open_cold_store
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.health import CountingPublisher, HealthState
from eunoe.deploy.process.backpressure import FEW, LagBackpressure
from eunoe.deploy.process.blocked_watch import blocked_watch
from eunoe.deploy.process.positions import LogEnds, PartitionStart, log_watch, position_watch, remember_position
from eunoe.deploy.process.self_test import self_test
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import REQUEST_AGE_S
from eunoe.schemas.ports import ColdStore, StateStore
from eunoe.streams.group.limits import QUEUED_BYTES, DispatchLimits
from eunoe.streams.group.stage_consumer import StageConsumer
from eunoe.streams.group.stage_options import StageOptions, StartPosition
from eunoe.streams.record import Record
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.batches import MAX_BATCH
from eunoe.workers.runner.blocked import BlockedConversations
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.loss_detector import LossDetector, SeenLedgers, seen_ledgers
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.periodic import run_periodically
from eunoe.workers.runner.runner import Runner
from eunoe.workers.runner.skips import Skips
from eunoe.workers.stage import ApplyOrder, BackgroundContext, ModelKind, PeriodicTask, StageSpec
from eunoe.workers.stores.cold.freezer import Freezer
from eunoe.workers.stores.records.blocked import RedisBlocked
from eunoe.workers.stores.state.cached_state import CachedStateStore, StateCache, state_cache

AHEAD_BYTES = 30_000_000
"""Bytes of the log that a process of intake reads ahead: about 50,000 utterances of ordinary length."""
ASKED_BYTES = 16_000_000
"""Bytes of asks that a process takes: some 500 of the largest. Those of one conversation are answered one by one;
behind more than that, asks of other conversations wait to be read."""


@dataclass(frozen=True, slots=True)
class StageFactory:
    """Builds the stages of a process over the clients that they share."""

    settings: Settings
    clients: Clients
    place: LogPlace
    meter: WorkerMeter
    health: HealthState
    log_ends: LogEnds
    skips: Skips = field(default_factory=Skips)
    """Records to pass over."""
    runners: dict[str, Runner] = field(default_factory=dict)
    """The runners of the stages that have a consumer."""
    _loss_detectors: dict[str, LossDetector] = field(default_factory=dict)
    _cached_stores: dict[str, CachedStateStore] = field(default_factory=dict)
    _states: StateCache = field(default_factory=state_cache)
    _seen: SeenLedgers = field(default_factory=seen_ledgers)

    def consumer(self, name: str) -> StageConsumer:
        """A stage with its consumer, not started yet."""
        spec, progress = STAGES[name], self.health.progress(name)
        if spec.order is not ApplyOrder.REQUEST:  # what it acknowledged was published: nothing of it can be lost
            self._loss_detectors[name] = LossDetector(
                spec, self.clients.handled_positions, self.place.partitions, self.meter.stage(name), self._seen
            )
        runner = self.runners[name] = self._runner(spec)
        handle = progress.watched(runner.handle_batch)
        kafka, names = self.settings.kafka_settings, self.settings.names
        consumer = StageConsumer(name, spec.inputs, kafka, names, handle, self._options(spec))
        self.meter.consumers[name] = consumer
        self.clients.publisher.notify_after(spec.inputs, consumer.notify)
        return consumer

    def _options(self, spec: StageSpec) -> StageOptions:
        backpressure = LagBackpressure(
            lambda: self.meter.loop.recent_busy_s,
            partial(is_asked, self.meter.consumers),
            few_asked=1 if spec.reads_log else FEW,
        )
        queued_bytes = ASKED_BYTES if spec.answers else QUEUED_BYTES
        options = StageOptions(
            limits=DispatchLimits(self.settings.slots, queued_bytes=queued_bytes),
            # stages that nobody waits for yield to those that answer
            backpressure=(lambda: None) if spec.answers else backpressure.most_in_work,
            loop_lag_s=lambda: self.meter.loop.recent_s,
            interactive=spec.answers,
            is_fed=partial(is_fed, spec, self.meter.consumers),
        )
        if spec.reads_log:
            options = replace(
                options,
                # the other stages decide record by record: a larger batch would only prolong a rebalance
                limits=replace(options.limits, batch=MAX_BATCH, ahead_bytes=AHEAD_BYTES),
                barrier=_is_control,
                # an ask goes ahead of an import that stands before it; the import yields to whoever answers
                urgent=_is_ask,
                backpressure=backpressure.most_in_work,
            )
        loss_detector = self._loss_detectors.get(spec.name)
        if loss_detector is None:
            return options
        epoch, outages = self.settings.log_epoch, self.health.outages
        end_at_least = self.log_ends.end_at_least if spec.reads_log else None
        is_door = spec.reads_log and self.settings.names.door_ms is not None
        begin_of = self.log_ends.begin_of if is_door else None
        return replace(
            options,
            before_ack=remember_position(loss_detector, epoch, outages, self.settings.patience_seconds),
            start_position=self._starting(
                spec.name, PartitionStart(loss_detector, epoch, end_at_least, begin_of, outages)
            ),
        )

    def _starting(self, stage: str, start: PartitionStart) -> StartPosition:
        """Finds where a partition starts, and empties the cache: the state store may have lost writes."""

        async def position(topic: str, partition: int, offset: int) -> int | None:
            if (cached := self._cached_stores.get(stage)) is not None:
                cached.forget_all()
            return await start.start(topic, partition, offset)

        return position

    def blocked(self, stage: str) -> BlockedConversations:
        """The blocked conversations of a stage."""
        return self.health.blocked.setdefault(stage, BlockedConversations())

    def _runner(self, spec: StageSpec) -> Runner:
        publisher = CountingPublisher(self.clients.publisher, self.health)
        meter = self.meter.stage(spec.name)
        language = self.clients.dependencies.language_of(spec.name) if ModelKind.LANGUAGE in spec.models else None
        meter.model = "" if language is None else language.name
        store = self._store(spec)
        sender = replace(self.clients.sender, store=store, meter=meter, publisher=publisher)
        return Runner(
            spec,
            spec.build(replace(self.clients.dependencies, store=store)),
            sender,
            self.clients.store,
            self.place,
            RunnerContext(
                settings=replace(self.settings.runner, request_age_s=REQUEST_AGE_S),
                outages=self.health.outages,
                skips=self.skips,
                loss_detector=self._loss_detectors.get(spec.name),
                blocked=self.blocked(spec.name),
                self_test=self_test(self.clients.dependencies, spec.name),
                data_keys=self.clients.data_keys,
            ),
        )

    def _store(self, spec: StageSpec) -> StateStore:
        """The state store as a stage sees it; cached where lost writes are detected."""
        if spec.name not in self._loss_detectors:
            return self.clients.store
        cached = self._cached_stores[spec.name] = CachedStateStore(self.clients.store, spec.name, self._states)
        return cached

    def background(self, name: str, consumer: StageConsumer) -> Iterator[Coroutine[Any, Any, None]]:
        """The background work of a stage, over the partitions that its consumer is assigned."""

        def caught_up() -> list[int]:
            return [partition for topic, partition in consumer.assigned() if consumer.caught_up(topic, partition)]

        clients = self.clients
        context = BackgroundContext(
            clients.dependencies.settings, clients.log_positions, clients.publisher, caught_up, self.place.answers
        )
        blocked_store = RedisBlocked(clients.redis, clients.keys)
        tasks = [build(context) for build in STAGES[name].background]
        tasks.append(blocked_watch(self.runners[name], consumer, self.blocked(name), blocked_store))
        if STAGES[name].reads_log and (cold := open_cold_store(self.settings)) is not None:
            tasks.append(self._freezing(cold, caught_up))
        if name in self._loss_detectors:
            tasks.append(position_watch(self._loss_detectors[name], consumer))
        if STAGES[name].reads_log and not self.settings.broker.embedded:  # an embedded broker ends with its log
            tasks.append(log_watch(self.log_ends.shorter, consumer.handled, self.settings.log_epoch))
        for task in tasks:
            yield run_periodically(task, self.health.outages)

    def _freezing(self, cold: ColdStore, caught_up: Callable[[], list[int]]) -> PeriodicTask:
        """The work that takes idle conversations out of Redis."""
        clients, settings = self.clients, self.settings.cold
        freezer = Freezer(
            clients.redis,
            clients.keys,
            cold,
            {name: spec.tables.all for name, spec in STAGES.items()},
            after_s=settings.after_days * DAY_S,
            settle_s=settings.settle_seconds,
            meter=clients.store.cold.meter,
        )
        return PeriodicTask(lambda: freezer.sweep(caught_up()), settings.sweep_seconds)


_ASK = re.compile(rb'"ask"\s*:\s*\{')
"""Within a text the quotes would be escaped."""


def _is_ask(record: Record) -> bool:
    """Whether a client waits for an answer to a record of the log, by its looks: it is not decoded yet."""
    return _ASK.search(record.value) is not None


def _is_control(record: Record) -> bool:
    """Whether a record of the log concerns its whole partition: a promotion, by its looks."""
    return record.key is None and b"generation_promoted" in record.value


_READERS = tuple(name for name, spec in STAGES.items() if spec.reads_log)
"""The stages whose records may be asks, which are urgent."""
_ANSWERERS = tuple(name for name, spec in STAGES.items() if spec.order is ApplyOrder.REQUEST)
"""The stages all of whose records are asks."""


def is_asked(members: Mapping[str, StageConsumer]) -> bool:
    """Whether this process has an ask to read or to answer; ``members``: its consumers by stage."""
    reading = (members[name].dispatcher for name in _READERS if name in members)
    answering = (members[name].dispatcher for name in _ANSWERERS if name in members)
    return any(one.any_urgent for one in reading) or any(one.in_work or one.queued for one in answering)


def is_fed(spec: StageSpec, members: Mapping[str, StageConsumer]) -> bool:
    """Whether all that other stages write for a stage is written in this process, which notifies its consumer.

    ``members``: the consumers of this process by stage. A stage writes to the partition that it reads, so those that
    write must have each partition that this one has. What commands write is found by looking, a little later.
    """
    if spec.reads_log or spec.name not in members:
        return False
    own = {partition for _, partition in members[spec.name].assigned()}
    return all(
        name in members and own <= {partition for _, partition in members[name].assigned()}
        for name in _writers_for(spec.name)
    )


@cache  # each delay between two fetches asks for them
def _writers_for(stage: str) -> tuple[str, ...]:
    """The stages that write to the topics that a stage reads."""
    return tuple(one.name for one in STAGES.values() if not set(one.outputs).isdisjoint(STAGES[stage].inputs))
