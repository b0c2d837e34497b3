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
async def running(settings: Settings, *, attach: bool, workers: bool) -> AsyncIterator[Settings]:
    """Servers with topics, and with ``workers`` a worker of all stages; stopped in reverse order.

    ``attach`` uses the servers of ``EUNOE_*`` or of an `eunoe up` in this directory, else temporary ones are started.
    """
    async with AsyncExitStack() as closing:
        if attach:
            settings = await live_settings(connected_settings())
        else:
            stack = await closing.enter_async_context(LocalStack(None))
            settings = on_stack(settings, stack.urls)
        await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)
        if workers:
            worker = WorkerProcess(["all"], environment(settings))
            closing.push_async_callback(worker.stop)
            await worker.start()
        yield settings
