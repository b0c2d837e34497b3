"""Health of a worker: its state, and the report of liveness and readiness."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from eunoe.deploy.observability.progress import StageProgress
from eunoe.schemas.records import DeadLetter
from eunoe.streams.dead_letters import DEAD_LETTER_HEADER
from eunoe.streams.record import Message, Publisher
from eunoe.streams.topics import Topic
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.blocked import BlockedConversations


class Phase(StrEnum):
    """Phases of a worker process."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Liveness and readiness, with the reasons."""

    phase: Phase
    live: bool
    """Whether it makes progress where it has work; if not, restart it."""
    ready: bool
    """Whether it runs and waits for no server."""
    why: tuple[str, ...]
    """Reasons against it, in words."""
    lag: dict[str, int]
    """Unhandled records by stage, of the partitions of this process."""

    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "phase": self.phase.value,
            "live": self.live,
            "ready": self.ready,
            "why": list(self.why),
            "lag": self.lag,
        }


@dataclass(slots=True)
class HealthState:
    """The facts that the report of one process rests on."""

    stalled_s: float = 600.0
    """Seconds without progress after which a stage that has work is not alive."""
    phase: Phase = Phase.STARTING
    outages: Outages = field(default_factory=Outages)
    progress_of: dict[str, StageProgress] = field(default_factory=dict)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters published, by stage and reason."""
    letter_ends: dict[int, int] = field(default_factory=dict)
    """Partition of the dead letters → the offset behind the last one."""
    blocked: dict[str, BlockedConversations] = field(default_factory=dict)
    """Blocked conversations, by stage."""
    held: dict[str, str] = field(default_factory=dict)
    """Name of something held → the reason; the process is not ready meanwhile."""

    evicted: dict[str, int] = field(default_factory=dict)
    """Keys that Redis has evicted, by server."""

    def progress(self, stage: str) -> StageProgress:
        """The progress of a stage, created at the first call."""
        return self.progress_of.setdefault(stage, StageProgress())

    def report(self) -> HealthReport:
        """The report of the current state."""
        stuck = [
            f"{stage}: {reason}"
            for stage, progress in self.progress_of.items()
            for reason in progress.stalled(self.stalled_s)
        ]
        waits = [f"{count} waiting for {server}" for server, count in self.outages.waiting().items()]
        phases = [] if self.phase is Phase.RUNNING else [self.phase.value]
        holds = [f"{what}: {reason}" for what, reason in self.held.items()]
        why = (*phases, *stuck, *waits, *holds)
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
                self.health.letters[_stage_and_reason(message)] += 1


def _stage_and_reason(message: Message) -> tuple[str, str]:
    letter = DeadLetter.from_json(dict(message.headers)[DEAD_LETTER_HEADER])
    return letter.stage, letter.reason.value
