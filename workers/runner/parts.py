"""The context of a runner, and the parts that decide and commit the events of its stage."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from eunoe.schemas.keys import KeyStore
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.blocked import BlockedConversations
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.decider import Decider, RunnerSettings, SelfTest
from eunoe.workers.runner.loss_detector import LossDetector
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.runner.skips import Skips
from eunoe.workers.runner.steady_time import steady_now
from eunoe.workers.stage import StageSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """The state that a runner shares with others of its process, and its optional parts."""

    settings: RunnerSettings = field(default_factory=RunnerSettings)
    outcomes: RecordedOutcomes = field(default_factory=RecordedOutcomes)
    outages: Outages = field(default_factory=Outages)
    """Shared by all runners of a process."""
    now: Callable[[], datetime] = steady_now
    """The time by which requests grow old."""
    skips: Skips = field(default_factory=Skips)
    """Records to pass over; shared by all runners of a process."""
    blocked: BlockedConversations = field(default_factory=BlockedConversations)
    self_test: SelfTest | None = None
    loss_detector: LossDetector | None = None
    data_keys: KeyStore | None = None


@dataclass(frozen=True, slots=True)
class StageParts:
    """The parts that `EventApplier` and `BatchApplier` of a stage share."""

    spec: StageSpec
    decider: Decider
    committer: Committer
    outcomes: RecordedOutcomes
    observer: Observer
    log_epoch: int | None = None
    """As `eunoe.workers.runner.outbox.DecisionStamp.log_epoch`."""
