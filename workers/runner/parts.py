"""The parts that decide and commit events of one stage, one by one or several at once."""

from dataclasses import dataclass

from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.decider import Decider
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stage import StageSpec


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
