"""Ends idle sessions by producing events to the log."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from eunoe.schemas.events import SessionEnded
from eunoe.schemas.identity import split_key
from eunoe.schemas.position_ports import DueTimer, LogPositions
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.intake.settings import IntakeSettings

log = logging.getLogger(__name__)

BATCH = 256
REPEAT_S = 30.0
"""Seconds after which an end that changed nothing is produced again; each time twice as many, up to the idle time."""
REMEMBERED = 10_000
_JUMP = 0.1
"""The share of the idle time by which a clock that is set forward is told from one that runs a little fast."""
_LEAST_JUMP_S = 1.0
"""A process that is starved may take as long between the readings of two clocks."""


def passed_s() -> float:
    """Seconds on a clock that nobody sets; it runs on while the machine sleeps, where the system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(slots=True)
class IdleCloser:
    """Finds idle sessions on caught-up partitions and produces `SessionEnded` to ``conversations``.

    The event names the utterance it follows, so it has no effect if another one came, or if by the times of the log the
    session is not idle yet. It may be produced twice. Where the clock is set forward, which may be that of the log,
    too, no session ends for the idle time: each has been silent for that long then.
    """

    log_positions: LogPositions
    publisher: Publisher
    caught_up: Callable[[], Iterable[int]]
    """The partitions that this process owns and has read to their end."""
    settings: IntakeSettings
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = passed_s
    may_close: Callable[[str | None], bool] = lambda promoted: promoted is None
    """Whether this generation may end sessions, given the last promoted one; only one generation may."""
    _produced: OrderedDict[tuple[str, str | None], "_Produced"] = field(default_factory=OrderedDict)
    """Conversation and utterance → the end that was produced. The log may not have been read that far yet."""
    _began: datetime | None = None
    """The time by ``now`` when ``clock`` was 0, as the last sweep saw it: it changes when the time of day is set."""
    _held_until: float = float("-inf")
    """The time by ``clock`` before which no session ends."""

    async def sweep(self) -> int:
        """Check all partitions once; returns how many ends were produced. Raises `Unavailable`."""
        now = self.now()
        if self._is_held(now):
            return 0
        since = now - timedelta(seconds=self.settings.idle_seconds)
        due = [timer for partition in self.caught_up() for timer in await self._due(partition, since)]
        fresh = [timer for timer in due if self._is_fresh(timer)]
        if fresh:
            await self.publisher.publish([_session_ended(timer, now) for timer in fresh])
            self._remember(fresh)
        return len(fresh)

    def _is_held(self, now: datetime) -> bool:
        at, idle_s = self.clock(), self.settings.idle_seconds
        began = now - timedelta(seconds=at)
        ahead_s = 0.0 if self._began is None else (began - self._began).total_seconds()
        self._began = began
        if ahead_s > max(_LEAST_JUMP_S, _JUMP * idle_s):
            log.warning("the clock of this machine was set forward by %d s: no session ends for %g s", ahead_s, idle_s)
            self._held_until = at + idle_s
        return at < self._held_until

    async def _due(self, partition: int, since: datetime) -> list[DueTimer]:
        due = await self.log_positions.due(partition, since, BATCH)
        if due and not self.may_close(await self.log_positions.answering(partition)):
            return []
        return due

    def _is_fresh(self, due: DueTimer) -> bool:
        before = self._produced.get(_named(due))
        return before is None or self.clock() - before.at >= before.pause_s

    def _remember(self, produced: Iterable[DueTimer]) -> None:
        longest_s = max(REPEAT_S, self.settings.idle_seconds)
        for due in produced:
            before = self._produced.pop(_named(due), None)
            pause_s = REPEAT_S if before is None else min(2 * before.pause_s, longest_s)
            self._produced[_named(due)] = _Produced(self.clock(), pause_s)
        while len(self._produced) > REMEMBERED:
            self._produced.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Produced:
    """An end that was produced, at a time of the clock, and the seconds until it may be produced again."""

    at: float
    pause_s: float


def _named(due: DueTimer) -> tuple[str, str | None]:
    """The parts of a timer that an end names: one that changed nothing sets it again, with another number."""
    return due.key, due.timer.after_utterance_id


def _session_ended(due: DueTimer, now: datetime) -> Message:
    tenant, conversation_id = split_key(due.key)
    event = SessionEnded(
        tenant=tenant,
        conversation_id=conversation_id,
        at=now,
        after_utterance_id=due.timer.after_utterance_id,
    )
    return Message(topic=Topic.CONVERSATIONS, key=due.key.encode(), value=encode(event))
