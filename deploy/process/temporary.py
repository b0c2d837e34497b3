"""Servers and a worker for the duration of a command."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from eunoe.deploy.clients.connect import connected_settings, environment, on_stack
from eunoe.deploy.clients.live_settings import live_settings
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.supervisor import WorkerProcess
from eunoe.deploy.settings import Settings
from eunoe.streams.admin import create_topics


@asynccontextmanager
async def temporary_servers(settings: Settings, *, workers: bool) -> AsyncIterator[Settings]:
    """Servers of their own, with topics, and with ``workers`` a worker of all stages; yields their settings.

    Raises `Unavailable` where one does not come up.
    """
    async with LocalStack(None) as stack, _worked(on_stack(settings, stack.urls), workers=workers) as own:
        yield own


@asynccontextmanager
async def attached_servers(*, workers: bool) -> AsyncIterator[Settings]:
    """The servers of ``EUNOE_*``, or of an `eunoe up` in this directory, with topics and a worker as above.

    Raises `Refused` where there are none, `Unavailable` where one does not answer.
    """
    async with _worked(await live_settings(connected_settings()), workers=workers) as settings:
        yield settings


@asynccontextmanager
async def _worked(settings: Settings, *, workers: bool) -> AsyncIterator[Settings]:
    async with AsyncExitStack() as closing:
        await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)
        if workers:
            worker = WorkerProcess(["all"], environment(settings))
            closing.push_async_callback(worker.stop)
            await worker.start()
        yield settings
