"""What is known of a worker's health, and the judgement: alive, ready, and why not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eunoe.deploy.observability.progress import StageProgress
from eunoe.schemas.events import DeadLetter
from eunoe.streams.dead_letters import DEAD_LETTER_HEADER
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.runner.backoff import Outages


class Phase(StrEnum):
    """Where a worker is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The judgement of a moment."""

    phase: Phase
    live: bool
    """False: it has work and does none of it; start it afresh."""
    ready: bool
    """False: starting, stopping, stuck, or waiting for a server."""
    why: tuple[str, ...]
    """What stands against it, in words."""
    lag: dict[str, int]
    """Records that are not done, by stage: of the partitions that are this process's."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "phase": self.phase.value,
            "live": self.live,
            "ready": self.ready,
            "why": list(self.why),
            "lag": self.lag,
        }


@dataclass(slots=True)
class HealthState:
    """All that the judgement rests on, for one process."""

    stalled_s: float = 600.0
    """Without a sign of life for longer than this, although there is work, a stage is not alive."""
    phase: Phase = Phase.STARTING
    outages: Outages = field(default_factory=Outages)
    progress_of: dict[str, StageProgress] = field(default_factory=dict)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters published, by stage and reason."""

    def progress(self, stage: str) -> StageProgress:
        """The signs of life of a stage, made when first asked for."""
        return self.progress_of.setdefault(stage, StageProgress())

    def report(self) -> HealthReport:
        """The judgement now."""
        stuck = [
            f"{stage}: {told}"
            for stage, progress in self.progress_of.items()
            for told in progress.stalled(self.stalled_s)
        ]
        waits = [f"{count} waiting for {server}" for server, count in self.outages.waiting().items()]
        phases = [] if self.phase is Phase.RUNNING else [self.phase.value]
        why = (*phases, *stuck, *waits)
        lag = {stage: sum(progress.lag().values()) for stage, progress in self.progress_of.items()}
        return HealthReport(self.phase, live=not stuck, ready=not why, why=why, lag=lag)


@dataclass(frozen=True, slots=True)
class CountingPublisher:
    """A publisher that counts the dead letters it has sent."""

    publisher: Publisher
    health: HealthState

    async def publish(self, messages: Sequence[Message]) -> None:
        """Send all; raises what the publisher raises."""
        await self.publisher.publish(messages)
        for message in messages:
            if message.topic == Topic.DEAD_LETTERS:
                self.health.letters[_told_by(message)] += 1


def _told_by(message: Message) -> tuple[str, str]:
    letter = DeadLetter.from_json(dict(message.headers)[DEAD_LETTER_HEADER])
    return letter.stage, letter.reason.value
