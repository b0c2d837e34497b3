"""A worker process: the stages it was asked for, each with its consumer, until it is told to stop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.clients.shared import open_redis
from eunoe.deploy.event_loop import keep_for_good
from eunoe.deploy.exits import code_of
from eunoe.deploy.observability.counters import WorkerMeter, metered
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.observability.monitor import monitored
from eunoe.deploy.observability.server import serve_health
from eunoe.deploy.process.durability import warn_of_promises
from eunoe.deploy.process.retired_consumers import retired_log_consumers
from eunoe.deploy.process.shutdown import Shutdown
from eunoe.deploy.process.stages import StageFactory
from eunoe.deploy.settings import Settings
from eunoe.streams.admin import check_partitions
from eunoe.streams.group.end_watch import EndWatch
from eunoe.streams.group.stage_consumer import StageConsumer, stop_all
from eunoe.workers.runner.backoff import UnboundedLease
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.stores.generations import RedisGenerations

log = logging.getLogger(__name__)

T = TypeVar("T")


async def run_worker(settings: Settings, stages: Sequence[str], ready: Callable[[], None] = lambda: None) -> None:
    """Run stages until SIGTERM or SIGINT; ``ready`` is called when all of them consume.

    Raises `Refused` when the topics do not fit the settings, `Unavailable` when a server stays away, `Fenced` when
    another process took over, `TooManyFailures` from a stage that fails at most things: each ends the process, with
    a code that says why. However it ends, it takes no longer than the one deadline of the settings: see `Shutdown`.
    """
    worker = _Worker(settings, Shutdown(settings.shutdown_seconds))
    watched = MetricSources(worker.meter, worker.health_state)
    with worker.ending.listening():
        async with serve_health(watched, settings.health) as url, AsyncExitStack() as closing:
            if url is not None:
                log.info("health: %s/live, %s/ready, %s/metrics", url, url, url)
            house = await worker.ending.before(worker.reach_servers(closing))
            if house is not None:
                await worker.run(house, stages, ready)


class _Worker:
    def __init__(self, settings: Settings, ending: Shutdown) -> None:
        self.settings = settings
        self.ending = ending
        self.health_state = HealthState(settings.stalled_seconds)
        self.meter = WorkerMeter()

    async def reach_servers(self, closing: AsyncExitStack) -> StageFactory:
        """Wait until all servers answer, as long as patience lasts."""
        settings = self.settings = await self._retry(lambda: live_settings(self.settings))
        place = await self._retry(lambda: _place(settings))
        clients = await self._retry(lambda: closing.enter_async_context(open_clients(settings)))
        await self._retry(lambda: warn_of_promises(clients.redis))
        self.meter.language = clients.dependencies.language
        return StageFactory(settings, clients, place, self.meter, self.health_state)

    async def _retry(self, work: Callable[[], Awaitable[T]]) -> T:
        runner = self.settings.runner
        return await self.health_state.outages.retry(work, UnboundedLease(), runner.backoff, runner.retry_limit_s)

    async def run(self, house: StageFactory, stages: Sequence[str], ready: Callable[[], None]) -> None:
        """Consume until told to stop, or until something fails."""
        apps = {name: house.app(name) for name in stages}
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(metered(self.meter, self.settings.meter_file))
            ends = EndWatch(self.settings.kafka_settings, self.settings.names)
            await closing.enter_async_context(monitored(self.health_state, apps, ends))
            closing.push_async_callback(self._stop, apps)
            try:
                if await self.ending.before(_start(apps)):
                    await self._work(house, apps, ready, closing)
            except Exception as fault:
                self.ending.begin(code_of(fault))
                raise

    async def _work(
        self, house: StageFactory, apps: Mapping[str, StageConsumer], ready: Callable[[], None], closing: AsyncExitStack
    ) -> None:
        doors = (
            retired_log_consumers(self.settings, house.clients, self.health_state.outages) if "intake" in apps else None
        )
        keepers = [] if doors is None else await closing.enter_async_context(doors)
        failures = [app.failure() for app in (*apps.values(), *keepers)]
        if "intake" in apps:
            closer = house.idle_closer(apps["intake"])
            failures.append(await closing.enter_async_context(_background(closer.run())))
        keep_for_good()
        self.health_state.phase = Phase.RUNNING
        ready()
        await self.ending.or_failure(failures)

    async def _stop(self, apps: Mapping[str, StageConsumer]) -> None:
        self.health_state.phase = Phase.STOPPING
        begun, in_work = monotonic(), sum(app.dispatcher.in_work for app in apps.values())
        log.info("stopping: %d records are in work", in_work)
        await stop_all(apps.values(), self.ending.stages_s)
        log.info("the stages stopped after %.1f s", monotonic() - begun)


async def _place(settings: Settings) -> LogPlace:
    """Where the log stands, and whether this generation answers before any was promoted."""
    partitions = await check_partitions(settings.kafka_settings, settings.names)
    async with open_redis(settings) as redis:
        book = RedisGenerations(redis, settings.prefix)
        name = settings.names.generation
        pointer = await (book.pointer() if await book.find(name) else book.begin(name))
    return LogPlace(settings.log_epoch, partitions, name, is_first=pointer.first == name)


async def _start(apps: Mapping[str, StageConsumer]) -> bool:
    await asyncio.gather(*(app.start() for app in apps.values()))
    return True


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[Coroutine[Any, Any, BaseException]]:
    """Run ``work`` beside the body; gives what waits for its failure."""
    task = asyncio.create_task(work)

    async def failure() -> BaseException:
        await asyncio.wait({task})
        return task.exception() or RuntimeError("the work ended")

    try:
        yield failure()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
