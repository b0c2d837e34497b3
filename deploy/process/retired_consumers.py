"""Doorkeepers at the logs that were left: the workers of the live log's intake refuse what still comes into them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.process.retired_log import STAGE, RetiredLogHandler, where_to
from eunoe.deploy.settings import Settings
from eunoe.streams.admin import list_topics
from eunoe.streams.group.dispatcher import one_by_one
from eunoe.streams.group.stage_consumer import StageConsumer, StageOptions, stop_all
from eunoe.streams.offsets import commit_offsets
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.stores.generations import RedisGenerations

_SLOTS = 8
_STOP_S = 5.0


def door(prefix: str, log: int) -> TopicNames:
    """The names at an old log. Its group is nobody's generation: one refusal of each record is enough."""
    return TopicNames(prefix=prefix, generation=f"log-{log}", log=log)


@asynccontextmanager
async def retired_log_consumers(
    settings: Settings, clients: Clients, outages: Outages
) -> AsyncIterator[list[StageConsumer]]:
    """Consumers of all logs before this one that are still there, at work inside the block.

    Raises `Unavailable` when no broker answers.
    """
    apps = [app for log in range(settings.names.log) if (app := await _app(settings, clients, outages, log))]
    try:
        for app in apps:
            await app.start()
        yield apps
    finally:
        await stop_all(apps, _STOP_S)


async def _app(settings: Settings, clients: Clients, outages: Outages, log: int) -> StageConsumer | None:
    names = door(settings.prefix, log)
    there = {status.topic: status.partitions for status in await list_topics(settings.kafka_settings, names)}
    if not there[Topic.CONVERSATIONS]:
        return None
    book = RedisGenerations(clients.redis, settings.prefix)
    told = where_to(names, settings.names)
    keeper = RetiredLogHandler(
        partial(book.closed_log, log), clients.publisher, told, outages, retry_limit_s=settings.patience_seconds
    )
    options = StageOptions(concurrency=_SLOTS)
    return StageConsumer(
        STAGE, [Topic.CONVERSATIONS], settings.kafka_settings, names, one_by_one(keeper.handle), options
    )


async def begin_at(settings: Settings, log: int, offsets: dict[int, int]) -> None:
    """Let the doorkeepers of a log, of which none is at work, begin there: what is before is not refused anyhow.

    Raises `Unavailable`.
    """
    places = {(Topic.CONVERSATIONS.value, partition): offset for partition, offset in offsets.items()}
    await commit_offsets(settings.kafka_settings, door(settings.prefix, log), STAGE, places)
