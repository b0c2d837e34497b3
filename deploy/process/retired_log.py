"""Retired logs: refuses what clients still produce into a log that was left, and names the log that replaced it.

The workers of the live log's intake run these consumers.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from eunoe.deploy.clients.bootstrap import Clients
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import Strategy
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.admin import list_topics
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.group.handlers import one_by_one
from eunoe.streams.group.limits import DispatchLimits
from eunoe.streams.group.stage_consumer import StageConsumer, stop_all
from eunoe.streams.group.stage_options import StageOptions
from eunoe.streams.offsets import commit_offsets
from eunoe.streams.record import Lease, Publisher, Record
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.intake.stage import NAME as INTAKE
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.runner.backoff import Backoff, Outages
from eunoe.workers.runner.refused_asks import error_answers
from eunoe.workers.stores.records.generations import RedisGenerations

log = logging.getLogger(__name__)

STAGE = "moved"
"""The name in its consumer groups. Its dead letters name intake, which takes them in the log that replaced this one."""
POLL_S = 1.0
"""Seconds between two checks whether the log is retired."""
_CONCURRENCY = 8
_STOP_S = 5.0


def names_at(prefix: str, log: int) -> TopicNames:
    """The names at an old log. The group belongs to no generation: one refusal of each record is enough."""
    return TopicNames(prefix=prefix, generation=f"log-{log}", log=log)


def refusal(old: TopicNames, new: TopicNames) -> str:
    """The error that a client of the old log gets: it names the topic to produce into."""
    left, there = old.name(Topic.CONVERSATIONS), new.name(Topic.CONVERSATIONS)
    return (
        f"{left} is closed, its partitions have changed: produce into {there}"
        f" (EUNOE_LOG={new.log}, in Python TopicNames(log={new.log})), and send it again there"
    )


@dataclass(slots=True)
class RetiredLogHandler:
    """Dead-letters what was produced into a log after its end, and answers asks with the reason."""

    closed: Callable[[], Awaitable[Mapping[int, int] | None]]
    """Returns partition → the first offset to refuse; `None` means that the log is not retired yet."""
    publisher: Publisher
    refusal: str
    strategy: Strategy
    """The strategy of an ask that names none, for its error reply."""
    outages: Outages = field(default_factory=Outages)
    retry_limit_s: float = 600.0
    _ends: Mapping[int, int] | None = None

    async def handle(self, record: Record, lease: Lease) -> None:
        """Refuse a record, unless the log was still open when it came.

        Raises `eunoe.streams.record.Revoked` when a rebalance comes first, `Unavailable` when a server stays away.
        """
        ends = await self._when_closed(lease)
        if record.key is None or record.offset < ends.get(record.partition, 0):
            return
        log.warning("refused: %s/%d@%d: %s", record.topic, record.partition, record.offset, self.refusal)
        letter = dead_letter(record, INTAKE, DeadLetterReason.MOVED, self.refusal)
        messages = [letter, *error_answers(record, self.refusal, self.strategy)]
        await self.outages.retry(lambda: self.publisher.publish(messages), lease, Backoff(), self.retry_limit_s)

    async def _when_closed(self, lease: Lease) -> Mapping[int, int]:
        while self._ends is None:
            self._ends = await self.outages.retry(self.closed, lease, Backoff(), self.retry_limit_s)
            if self._ends is None:
                await lease.pause(POLL_S)
        return self._ends


@asynccontextmanager
async def retired_log_consumers(
    settings: Settings, clients: Clients, outages: Outages
) -> AsyncIterator[list[StageConsumer]]:
    """Consumers of all logs before the live one that still exist, running inside the block.

    Raises `Unavailable` when no broker answers.
    """
    found = [await _consumer(settings, clients, outages, log) for log in range(settings.names.log)]
    consumers = [consumer for consumer in found if consumer is not None]
    try:
        for consumer in consumers:
            await consumer.start()
        yield consumers
    finally:
        await stop_all(consumers, _STOP_S)


async def _consumer(settings: Settings, clients: Clients, outages: Outages, log: int) -> StageConsumer | None:
    kafka, names = settings.kafka_settings, names_at(settings.prefix, log)
    partitions = {status.topic: status.partitions for status in await list_topics(kafka, names)}
    if not partitions[Topic.CONVERSATIONS]:
        return None
    closed = partial(RedisGenerations(clients.redis, settings.prefix).closed_log, log)
    limit_s = settings.patience_seconds
    strategy = settings.stages.of(RespondSettings).strategy
    handler = RetiredLogHandler(
        closed, clients.publisher, refusal(names, settings.names), strategy, outages, retry_limit_s=limit_s
    )
    options = StageOptions(limits=DispatchLimits(_CONCURRENCY))
    return StageConsumer(STAGE, [Topic.CONVERSATIONS], kafka, names, one_by_one(handler.handle), options)


async def begin_at(settings: Settings, log: int, offsets: dict[int, int]) -> None:
    """Let the consumers of a log, of which none runs yet, begin at these offsets: earlier records are not refused.

    Raises `Unavailable`.
    """
    places = {(Topic.CONVERSATIONS.value, partition): offset for partition, offset in offsets.items()}
    await commit_offsets(settings.kafka_settings, names_at(settings.prefix, log), STAGE, places)
