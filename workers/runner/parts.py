"""The parts that decide and commit events of one stage, one by one or several at once; and what is around them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from eunoe.schemas.keys import KeyStore
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.blocked import BlockedConversations
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.continuity import Continuity
from eunoe.workers.runner.decider import Decider, RunnerSettings, SelfTest
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.runner.skips import Skips
from eunoe.workers.runner.steady_time import steady_now
from eunoe.workers.stage import StageSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings of a runner: all but its stage and its stores, by default as little as possible."""

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
    continuity: Continuity | None = None
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
