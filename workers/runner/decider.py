"""Asks a stage for its decision: waits, retries, gives up, and stops the process when too much fails."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eunoe.schemas.decisions import Decision, Outcome, Park, Rejection, Wait, Work
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import DeadLetterReason, SessionSkipped
from eunoe.streams.record import Lease, Revoked
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.failure_limit import FailureLimit, FailureWindow, TooManyFailures
from eunoe.workers.runner.faults import describe_fault, fault_frames
from eunoe.workers.runner.metrics import Part, StageMeter
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome
from eunoe.workers.stage import BatchStage, FailureAwareStage, Stage, StageSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Limits of retries, waits and failures."""

    attempts: int = 3
    """Attempts of a decision that raises, before the event is dead-lettered."""
    retry_limit_s: float = 600.0
    """Seconds to wait for a server before the process ends."""
    max_parked: int = 64
    """Sessions per conversation that may wait for an earlier one."""
    backoff: Backoff = field(default_factory=Backoff)
    failures: FailureLimit = field(default_factory=FailureLimit)


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """A decision to commit."""

    decision: Decision
    attempts: int = 1
    failed: bool = False
    """Whether the stage raised at every attempt: the decision is then that of the failure."""

    @property
    def outcome(self) -> RecordedOutcome | None:
        """The timing-dependent part, which is recorded together with the decision."""
        if self.failed and self.decision.rejection is not None:
            return RecordedOutcome(failed=self.decision.rejection.error, attempts=self.attempts)
        return None if self.decision.recorded is None else RecordedOutcome(recorded=self.decision.recorded)


class Decider:
    """Asks one stage until it has decided or failed."""

    def __init__(self, spec: StageSpec, stage: Stage, settings: RunnerSettings, meter: StageMeter) -> None:
        self._spec = spec
        self._stage = stage
        self._settings = settings
        self._meter = meter
        self._window = FailureWindow(settings.failures)

    async def decide(self, work: Work[Any], lease: Lease, recorded: RecordedOutcome) -> DecisionResult | Park:
        """The stage's decision, or the decision of its failure; ``recorded`` is the outcome to repeat.

        Raises `Revoked` when a rebalance comes first, `Unavailable` when a server is away, `TooManyFailures` when the
        stage fails more often than its limit allows: then this event is not dead-lettered.
        """
        if not self._spec.gathers and isinstance(work.events[0], SessionSkipped):
            return DecisionResult(Decision(events=work.events, skipped=True))
        if recorded.failed is not None:
            return self._given_up(work, recorded.failed, recorded.attempts)
        while isinstance(outcome := await self._tried(work, lease), Wait):
            await self.pause(outcome.seconds, lease)
        if not isinstance(outcome, Decision):
            return outcome
        self._window.note(work.key, failed=False)
        return DecisionResult(outcome)

    def too_large(self, work: Work[Any], result: DecisionResult, excess: str) -> DecisionResult:
        """The decision of a failure, in place of one with messages over their topics' limits.

        The cause is the content, not the stage: the failure limit does not count it.
        """
        log.error("%s: %s, number %d: %s", self._spec.name, work.key, work.number, excess)
        return self._given_up(work, f"the decision is too large: {excess}", result.attempts)

    @property
    def decides_batches(self) -> bool:
        """Whether the stage can decide several events of a conversation before the first is committed."""
        return isinstance(self._stage, BatchStage)

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision] | None:
        """The stage's decisions of several events; `None` where it cannot or fails: decide each on its own then.

        Raises `Unavailable` when a server is away.
        """
        if not isinstance(self._stage, BatchStage):
            return None
        try:
            with self._meter.timed(Part.DECIDING):
                decisions = await self._stage.decide_batch(works)
        except (Unavailable, Revoked):
            raise
        except Exception as error:
            self._log(works[0], error, f"{works[0].number} to {works[-1].number} in one batch")
            return None
        for work in works:
            self._window.note(work.key, failed=False)
        return decisions

    async def _tried(self, work: Work[Any], lease: Lease) -> Outcome | DecisionResult:
        """The stage's answer; where it raises at every attempt, the decision of the failure."""
        attempt = 0
        while True:
            try:
                with self._meter.timed(Part.DECIDING):
                    return await self._stage.decide(work)
            except (Unavailable, Revoked):
                raise
            except Exception as error:
                attempt += 1
                self._log(work, error, f"{work.number}, attempt {attempt}")
                if attempt >= self._settings.attempts:
                    return self._failed(work, describe_fault(error), attempt)
            await self.pause(self._settings.backoff.pause(attempt), lease)

    def _log(self, work: Work[Any], error: Exception, number: str) -> None:
        frames = fault_frames(error)
        log.error(
            "stage failed: %s %s, number %s: %s\n%s", self._spec.name, work.key, number, describe_fault(error), frames
        )

    async def pause(self, seconds: float, lease: Lease) -> None:
        """Wait; raises `Revoked` when a rebalance begins."""
        with self._meter.timed(Part.WAITING):
            await lease.pause(seconds)

    def _failed(self, work: Work[Any], error: str, attempts: int) -> DecisionResult:
        self._window.note(work.key, failed=True)
        if self._window.is_over:
            raise TooManyFailures(
                f"{self._spec.name} failed at {self._window.failures} of its last {self._window.conversations}"
                f" conversations, the last time with {error:.300}: it stops before more become dead letters"
                " (EUNOE_MAX_FAILED_SHARE)."
                " Fix or roll back the deployment and start the worker again: nothing of this event was acknowledged."
                " Retry the dead letters before it with `eunoe dead-letters retry`"
            )
        return self._given_up(work, error, attempts)

    def _given_up(self, work: Work[Any], error: str, attempts: int) -> DecisionResult:
        aware = self._stage if isinstance(self._stage, FailureAwareStage) else None
        report = self._spec.on_failure if aware is None else aware.failure_events
        # a late session was passed on as skipped in its turn
        events = () if work.late else report(work, error)
        rejection = Rejection(reason=DeadLetterReason.FAILED, error=error)
        skipped = self._spec.order.is_gapless
        return DecisionResult(Decision(events=events, rejection=rejection, skipped=skipped), attempts, failed=True)
