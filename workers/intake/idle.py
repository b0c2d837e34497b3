"""Ends idle sessions by producing events to the log."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic

from eunoe.schemas.events import SessionEnded
from eunoe.schemas.identity import split_key
from eunoe.schemas.position_ports import DueTimer, LogPositions
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.intake.settings import IntakeSettings

BATCH = 256
REPEAT_S = 30.0
"""Seconds after which an end that changed nothing is produced again."""
REMEMBERED = 10_000


@dataclass(slots=True)
class IdleCloser:
    """Finds idle sessions on caught-up partitions and produces `SessionEnded` to ``conversations``.

    The event names the utterance it follows, so it has no effect if another one came. It may be produced twice.
    """

    log_positions: LogPositions
    publisher: Publisher
    caught_up: Callable[[], Iterable[int]]
    """The partitions that this process owns and has read to their end."""
    settings: IntakeSettings
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = monotonic
    may_close: Callable[[str | None], bool] = lambda promoted: promoted is None
    """Whether this generation may end sessions, given the last promoted one; only one generation may."""
    _produced: OrderedDict[DueTimer, float] = field(default_factory=OrderedDict)
    """Recently produced ends → time by ``clock``. The log may not have been read that far yet."""

    async def sweep(self) -> int:
        """Check all partitions once; returns how many ends were produced. Raises `Unavailable`."""
        now = self.now()
        since = now - timedelta(seconds=self.settings.idle_seconds)
        due = [timer for partition in self.caught_up() for timer in await self._due(partition, since)]
        fresh = [timer for timer in due if self.clock() - self._produced.get(timer, -REPEAT_S) >= REPEAT_S]
        if fresh:
            await self.publisher.publish([_session_ended(timer, now) for timer in fresh])
            self._remember(fresh)
        return len(fresh)

    async def _due(self, partition: int, since: datetime) -> list[DueTimer]:
        due = await self.log_positions.due(partition, since, BATCH)
        if due and not self.may_close(await self.log_positions.answering(partition)):
            return []
        return due

    def _remember(self, produced: Iterable[DueTimer]) -> None:
        for timer in produced:
            self._produced[timer] = self.clock()
            self._produced.move_to_end(timer)
        while len(self._produced) > REMEMBERED:
            self._produced.popitem(last=False)


def _session_ended(due: DueTimer, now: datetime) -> Message:
    tenant, conversation_id = split_key(due.key)
    event = SessionEnded(
        tenant=tenant,
        conversation_id=conversation_id,
        at=now,
        after_utterance_id=due.timer.after_utterance_id,
    )
    return Message(topic=Topic.CONVERSATIONS, key=due.key.encode(), value=encode(event))
