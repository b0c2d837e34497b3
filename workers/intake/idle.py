"""Closes sessions in which nobody speaks any more, by telling the log so."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from eunoe.schemas.events import SessionEnded
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import DueTimer, LogPositions
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.runner.backoff import Backoff, Outages, UnboundedLease

BATCH = 256
REPEAT_S = 30.0
"""After so many seconds an end that changed nothing is produced again."""
REMEMBERED = 10_000


@dataclass(slots=True)
class IdleCloser:
    """Looks for idle sessions on partitions that are caught up, and produces their end into ``conversations``.

    An end names the utterance that it follows, so it is void if another has come; it may be produced twice.
    """

    log_positions: LogPositions
    publisher: Publisher
    caught_up: Callable[[], Iterable[int]]
    """The partitions that are this process's and read to their end."""
    settings: IntakeSettings
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = monotonic
    outages: Outages = field(default_factory=Outages)
    answers: Callable[[str | None], bool] = lambda promoted: promoted is None
    """Whether this generation closes sessions where that one was promoted last; of several only one may."""
    _told: OrderedDict[DueTimer, float] = field(default_factory=OrderedDict)
    """The ends that were produced lately; the log may need a while to come to them."""

    async def run(self) -> None:
        """Sweep for ever; a server that is away only delays the next sweep."""
        while True:
            await self.outages.retry(self.sweep, UnboundedLease(), Backoff(first=self.settings.sweep_seconds), math.inf)
            await asyncio.sleep(self.settings.sweep_seconds)

    async def sweep(self) -> int:
        """One look at all partitions; returns how many ends were produced."""
        now = self.now()
        since = now - timedelta(seconds=self.settings.idle_seconds)
        due = [timer for partition in self.caught_up() for timer in await self._due(partition, since)]
        fresh = [timer for timer in due if self.clock() - self._told.get(timer, -REPEAT_S) >= REPEAT_S]
        if fresh:
            await self.publisher.publish([_session_ended(timer, now) for timer in fresh])
            self._remember(fresh)
        return len(fresh)

    async def _due(self, partition: int, since: datetime) -> list[DueTimer]:
        due = await self.log_positions.due(partition, since, BATCH)
        if due and not self.answers(await self.log_positions.answering(partition)):
            return []
        return due

    def _remember(self, told: Iterable[DueTimer]) -> None:
        for timer in told:
            self._told[timer] = self.clock()
            self._told.move_to_end(timer)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)


def _session_ended(due: DueTimer, now: datetime) -> Message:
    tenant, conversation_id = split_key(due.key)
    event = SessionEnded(
        tenant=tenant,
        conversation_id=conversation_id,
        at=now,
        after_utterance_id=due.timer.after_utterance_id,
    )
    return Message(topic=Topic.CONVERSATIONS, key=due.key.encode(), value=encode(event))
