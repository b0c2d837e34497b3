"""A worker process: runs the given stages, each with its consumer, until a signal or a failure ends it."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

from aiokafka import codec
from pydantic import SecretStr

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.connect import wakeups_url
from eunoe.deploy.clients.erasures import check_store_has_seen_erasures
from eunoe.deploy.clients.key_checks import check_key_store_has_destroyed
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.event_loop import give_back_free_memory, keep_for_good
from eunoe.deploy.exits import code_of
from eunoe.deploy.inspect.counted import counted
from eunoe.deploy.local.tansu.identity import refuse_ordinary_broker
from eunoe.deploy.local.wakeups import receive_wakeups
from eunoe.deploy.observability.counters import WorkerMeter, metered, model_servers
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.observability.index_watch import watch_index
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.observability.monitor import monitored
from eunoe.deploy.observability.process_records import Announcer, announced
from eunoe.deploy.observability.server import serve_health
from eunoe.deploy.observability.traces import traced
from eunoe.deploy.process.durability import EvictionWatch, warn_of_weak_durability
from eunoe.deploy.process.embedder_watch import EmbedderWatch
from eunoe.deploy.process.positions import LogEnds
from eunoe.deploy.process.retired_log import retired_log_consumers
from eunoe.deploy.process.shutdown import Shutdown
from eunoe.deploy.process.silence import told_if_silent
from eunoe.deploy.process.stages import StageFactory
from eunoe.deploy.settings import Settings, reveal
from eunoe.schemas.errors import Misconfigured, Refused
from eunoe.schemas.redact import without_login
from eunoe.streams.admin import check_partitions
from eunoe.streams.cancelling import cancelled
from eunoe.streams.group.end_watch import EndWatch
from eunoe.streams.group.stage_consumer import StageConsumer, stop_all
from eunoe.streams.reader import partitions_of
from eunoe.streams.topics import Topic
from eunoe.workers.derive.index_guard import SERVER
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.backoff import UnboundedLease
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.periodic import run_periodically
from eunoe.workers.runner.skips import Skips
from eunoe.workers.stage import ModelKind, PeriodicTask
from eunoe.workers.stores.records.embedder_probe import RedisEmbedderProbe
from eunoe.workers.stores.records.generations import RedisGenerations
from eunoe.workers.stores.records.partition_record import RedisPartitionRecord
from eunoe.workers.stores.records.processes import RedisProcesses
from eunoe.workers.stores.records.skips import RedisSkips
from eunoe.workers.stores.redis.connection import RedisConnection

log = logging.getLogger(__name__)

T = TypeVar("T")

SKIPS_EVERY_S = 5.0
"""Seconds between two looks for records to pass over."""
EMBEDDER_EVERY_S = 600.0
"""Seconds between two looks whether the embedder is still the same model; the first is at the start."""
EVICTIONS_EVERY_S = 15.0
"""Seconds between two looks at what Redis has evicted."""
REST_S = 10.0
"""Seconds that the stages which read the log may take to stop before the others."""
GIVE_BACK_EVERY_S = 20.0
"""Seconds after which free memory goes back to the system."""


def _say_nothing() -> None:
    pass


async def run_worker(
    settings: Settings,
    stages: Sequence[str],
    ready: Callable[[], None] = _say_nothing,
    rested: Callable[[], None] = _say_nothing,
) -> None:
    """Run stages until SIGTERM or SIGINT; ``ready`` is called when all of them consume.

    At SIGUSR1 those that read the log stop, and the others go on; ``rested`` is called then.

    Raises `Refused` where the topics do not fit the settings, `Unavailable` where a server stays away, `Fenced` where
    another process took over, ``ImportError`` where a codec is missing, and `TooManyFailures` from a stage that fails
    at most of its events. Each ends the process with its own exit code, within the shutdown deadline: see `Shutdown`.
    """
    check_codecs()
    worker = _Worker(settings, Shutdown(settings.shutdown_seconds))
    sources = MetricSources(worker.meter, worker.health_state)
    with worker.shutdown.listening():
        async with (
            traced(settings, "worker"),
            serve_health(sources, settings.health) as url,
            AsyncExitStack() as closing,
        ):
            if url is not None:
                log.info("health: %s/live, %s/ready, %s/metrics", url, url, url)
            factory = await worker.shutdown.before(worker.reach_servers(closing))
            if factory is not None:
                await worker.run(factory, stages, ready, rested)


class _Worker:
    def __init__(self, settings: Settings, shutdown: Shutdown) -> None:
        self.settings = settings
        self.shutdown = shutdown
        # only what was asked for: the default is no wish
        self._asked_partitions = settings.partitions if "partitions" in settings.model_fields_set else None
        self.health_state = HealthState(settings.stalled_seconds)
        self.meter = WorkerMeter()

    async def reach_servers(self, closing: AsyncExitStack) -> StageFactory:
        """Wait until all servers answer; raises `Unavailable` when that takes longer than the settings allow."""
        kafka, redis = self.settings.kafka_settings.server, f"Redis at {_shown(self.settings.redis_url)}"
        if self.settings.broker.embedded:
            await self._retry(kafka, lambda: refuse_ordinary_broker(self.settings.kafka_settings))
        settings = self.settings = await self._retry(redis, lambda: live_settings(self.settings))
        place = await self._retry(kafka, lambda: _place(settings))
        (letters,) = await self._retry(
            kafka, lambda: partitions_of(settings.kafka_settings, settings.names, [Topic.DEAD_LETTERS])
        )
        self.health_state.letter_ends.update(dict.fromkeys(range(letters), 0))
        check_asked_partitions(self._asked_partitions, place.partitions, settings.names.log)
        await self._retry("the ledger of erasures", lambda: check_store_has_seen_erasures(settings))
        await self._retry("the key store", lambda: check_key_store_has_destroyed(settings))
        clients = await self._retry("the servers", lambda: closing.enter_async_context(open_clients(settings)))
        await self._retry(redis, lambda: warn_of_weak_durability(clients.redis))
        redis = f"Redis at {RedisConnection(clients.redis).host}"
        self.meter.language, self.meter.cold = clients.dependencies.language, clients.store.cold.meter
        servers = (settings.kafka_settings.server, redis, clients.index.server, SERVER)
        self.health_state.outages.expect(*servers, *model_servers(clients.dependencies))
        log_ends = LogEnds(settings.kafka_settings, settings.names)
        closing.push_async_callback(log_ends.close)
        skips = Skips(settings.log_epoch)
        await self._retry(redis, lambda: skips.refresh(RedisSkips(clients.redis, clients.keys)))
        return StageFactory(settings, clients, place, self.meter, self.health_state, log_ends, skips)

    async def _retry(self, server: str, work: Callable[[], Awaitable[T]]) -> T:
        runner = self.settings.runner

        async def attempt() -> T:
            try:
                return await told_if_silent(server, work())
            except Misconfigured as fault:  # at the start nobody waits for other settings
                raise Refused(str(fault)) from fault

        return await self.health_state.outages.retry(attempt, UnboundedLease(), runner.backoff, runner.retry_limit_s)

    async def run(
        self, factory: StageFactory, stages: Sequence[str], ready: Callable[[], None], rested: Callable[[], None]
    ) -> None:
        """Consume until a signal or a failure."""
        consumers = {name: factory.consumer(name) for name in stages}
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(metered(self.meter, self.settings.meter_file))
            ends = EndWatch(self.settings.kafka_settings, self.settings.names)
            await closing.enter_async_context(monitored(self.health_state, consumers, ends))
            await closing.enter_async_context(announced(self._announcer(factory)))
            closing.push_async_callback(self._stop, consumers)
            await closing.enter_async_context(_resting(consumers, rested))
            try:
                if await self.shutdown.before(_start(consumers)):
                    failures = await self._start_background(factory, consumers, closing)
                    await self._consume([*(consumer.failure() for consumer in consumers.values()), *failures], ready)
            except Exception as fault:
                self.shutdown.begin(code_of(fault), fault)
                raise

    def _announcer(self, factory: StageFactory) -> Announcer:
        records = RedisProcesses(factory.clients.redis, self.settings.prefix)
        return Announcer(records, MetricSources(self.meter, self.health_state), self.settings.names.generation)

    async def _start_background(
        self, factory: StageFactory, consumers: Mapping[str, StageConsumer], closing: AsyncExitStack
    ) -> list[Coroutine[Any, Any, BaseException]]:
        """Start all that runs beside the consumers; returns waits for the failure of each."""
        failures = []
        if any(STAGES[name].reads_log for name in consumers):
            retired = retired_log_consumers(self.settings, factory.clients, self.health_state.outages)
            failures += [consumer.failure() for consumer in await closing.enter_async_context(retired)]
        watching = watch_index(factory.clients.guard, self.health_state)
        failures.append(await closing.enter_async_context(_background(watching)))
        if (url := wakeups_url(self.settings)) is not None:
            receiving = receive_wakeups(url, lambda: _notify_all(consumers.values()))
            failures.append(await closing.enter_async_context(_background(receiving)))
        skips = RedisSkips(factory.clients.redis, factory.clients.keys)
        for task in (
            PeriodicTask(lambda: factory.skips.refresh(skips), SKIPS_EVERY_S),
            PeriodicTask(lambda: asyncio.to_thread(give_back_free_memory), GIVE_BACK_EVERY_S),
            PeriodicTask(EvictionWatch(factory.clients.redis, self.health_state).look, EVICTIONS_EVERY_S),
        ):
            repeating = run_periodically(task, self.health_state.outages)
            failures.append(await closing.enter_async_context(_background(repeating)))
        if any(ModelKind.EMBEDDING in STAGES[name].models for name in consumers):
            probe = RedisEmbedderProbe(factory.clients.redis, factory.clients.keys)
            look = EmbedderWatch(factory.clients.dependencies.embedder, probe, self.health_state).look
            repeating = run_periodically(PeriodicTask(look, EMBEDDER_EVERY_S), self.health_state.outages)
            failures.append(await closing.enter_async_context(_background(repeating)))
        for name, consumer in consumers.items():
            for work in factory.background(name, consumer):
                failures.append(await closing.enter_async_context(_background(work)))
        return failures

    async def _consume(self, failures: Sequence[Coroutine[Any, Any, BaseException]], ready: Callable[[], None]) -> None:
        keep_for_good()
        self.health_state.phase = Phase.RUNNING
        ready()
        await self.shutdown.or_failure(failures)

    async def _stop(self, consumers: Mapping[str, StageConsumer]) -> None:
        self.health_state.phase = Phase.STOPPING
        begun, in_work = monotonic(), sum(consumer.dispatcher.in_work for consumer in consumers.values())
        log.info("stopping with %s in work", counted(in_work, "record"))
        await stop_all(consumers.values(), self.shutdown.stages_s)
        log.info("the stages stopped after %.1f s", monotonic() - begun)


@asynccontextmanager
async def _resting(consumers: Mapping[str, StageConsumer], rested: Callable[[], None]) -> AsyncIterator[None]:
    """At SIGUSR1 stop the consumers of the log: then what the other stages have to do comes to an end."""
    loop, works = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def rest() -> None:
        await stop_all([consumer for name, consumer in consumers.items() if STAGES[name].reads_log], REST_S)
        rested()

    loop.add_signal_handler(signal.SIGUSR1, lambda: works.add(loop.create_task(rest())))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)
        await asyncio.gather(*works)


def _notify_all(consumers: Iterable[StageConsumer]) -> None:
    for consumer in consumers:
        consumer.notify()


def _shown(url: SecretStr | None) -> str:
    return without_login(reveal(url) or "")


def check_asked_partitions(asked: int | None, found: int, log_number: int) -> None:
    """Raise `Refused` where ``EUNOE_PARTITIONS`` is set to another number than the first log has.

    `None` means that it is not set. A repartitioned log has its own number.
    """
    if asked is not None and asked != found and log_number == 0:
        raise Refused(
            f"EUNOE_PARTITIONS is {asked}, and the log has {found} partitions: set EUNOE_PARTITIONS={found}, or change"
            f" the log with `eunoe topics repartition {asked}`"
        )


def check_codecs() -> None:
    """Raise ``ImportError`` where a codec of Kafka is missing: whole batches of clients would be dead letters."""
    known = {"gzip": codec.has_gzip, "snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstd": codec.has_zstd}
    if lacking := [name for name, is_there in known.items() if not is_there()]:
        raise ImportError(f"no codec for {', '.join(lacking)}: the package cramjam is missing")


async def _place(settings: Settings) -> LogPlace:
    """The place in the log, and whether this generation answers before any was promoted."""
    partitions = await check_partitions(settings.kafka_settings, settings.names)
    async with open_redis(settings) as redis:
        generations = RedisGenerations(redis, settings.prefix)
        name = settings.names.generation
        await RedisPartitionRecord(redis, store_keys(settings)).check(
            settings.names.log, settings.log_epoch, partitions
        )
        pointer = await (generations.pointer() if await generations.find(name) else generations.begin(name))
    return LogPlace(settings.log_epoch, partitions, name, is_first=pointer.first == name)


async def _start(consumers: Mapping[str, StageConsumer]) -> bool:
    await asyncio.gather(*(consumer.start() for consumer in consumers.values()))
    return True


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[Coroutine[Any, Any, BaseException]]:
    """Run ``work`` beside the body; yields a wait for its failure."""
    task = asyncio.create_task(work)

    async def failure() -> BaseException:
        await asyncio.wait({task})
        return task.exception() or RuntimeError("background work ended")

    try:
        yield failure()
    finally:
        await cancelled(task)
