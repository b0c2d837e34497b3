"""Asking a stage for its decision: waiting, trying again, giving up, and stopping where too much fails."""

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
from eunoe.workers.runner.metrics import Part, StageMeter
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome
from eunoe.workers.stage import BatchStage, Stage, StageSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Bounds of trying."""

    attempts: int = 3
    """Tries of a decision that raises, before the event is set aside."""
    retry_limit_s: float = 600.0
    """Seconds to wait for a server before the process gives up."""
    max_parked: int = 64
    """Sessions that may wait for an earlier one, per conversation."""
    backoff: Backoff = field(default_factory=Backoff)
    failures: FailureLimit = field(default_factory=FailureLimit)


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """A decision to commit."""

    decision: Decision
    attempts: int = 1
    failed: bool = False
    """True: the stage raised each time, and the decision is what becomes of that."""

    @property
    def outcome(self) -> RecordedOutcome | None:
        """What only time made so; it is recorded together with the decision."""
        if self.failed and self.decision.rejection is not None:
            return RecordedOutcome(failed=self.decision.rejection.error, attempts=self.attempts)
        return None if self.decision.recorded is None else RecordedOutcome(recorded=self.decision.recorded)


class Decider:
    """Asks one stage until it has decided."""

    def __init__(self, spec: StageSpec, stage: Stage, settings: RunnerSettings, meter: StageMeter) -> None:
        self._spec = spec
        self._stage = stage
        self._settings = settings
        self._meter = meter
        self._window = FailureWindow(settings.failures)

    async def decide(self, work: Work[Any], lease: Lease, recorded: RecordedOutcome) -> DecisionResult | Park:
        """What the stage decides, or what becomes of its failure; ``recorded`` is what was recorded of it.

        Raises `Revoked` when a rebalance comes first, `Unavailable` when a server is away, `TooManyFailures` when the
        stage fails more often than its limit allows: then nothing of this event is set aside.
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
        """What becomes of a decision whose messages are over their topics' limits: a failed one.

        The reason lies in the content, so it says nothing of the stage: the failure limit does not count it.
        """
        log.error("%s: %s, number %d: %s", self._spec.name, work.key, work.number, excess)
        return self._given_up(work, f"the decision is too large: {excess}", result.attempts)

    @property
    def decides_batches(self) -> bool:
        """True: the stage can decide several events of a conversation before the first is committed."""
        return isinstance(self._stage, BatchStage)

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision] | None:
        """What the stage decides of several events; None where it cannot, or fails: then each is decided for itself.

        Raises `Unavailable` when a server is away.
        """
        if not isinstance(self._stage, BatchStage):
            return None
        try:
            with self._meter.timed(Part.DECIDING):
                decisions = await self._stage.decide_batch(works)
        except (Unavailable, Revoked):
            raise
        except Exception:
            first, last = works[0].number, works[-1].number
            log.exception("%s: %s, numbers %d to %d together", self._spec.name, works[0].key, first, last)
            return None
        for work in works:
            self._window.note(work.key, failed=False)
        return decisions

    async def _tried(self, work: Work[Any], lease: Lease) -> Outcome | DecisionResult:
        """What the stage says; where it raises each time, what becomes of that."""
        attempt = 0
        while True:
            try:
                with self._meter.timed(Part.DECIDING):
                    return await self._stage.decide(work)
            except (Unavailable, Revoked):
                raise
            except Exception as error:
                attempt += 1
                log.exception("%s: %s, number %d, attempt %d", self._spec.name, work.key, work.number, attempt)
                if attempt >= self._settings.attempts:
                    return self._failed(work, f"{type(error).__name__}: {error}", attempt)
            await self.pause(self._settings.backoff.pause(attempt), lease)

    async def pause(self, seconds: float, lease: Lease) -> None:
        """Let time go by; raises `Revoked` when a rebalance begins."""
        with self._meter.timed(Part.WAITING):
            await lease.pause(seconds)

    def _failed(self, work: Work[Any], error: str, attempts: int) -> DecisionResult:
        self._window.note(work.key, failed=True)
        if self._window.is_over:
            raise TooManyFailures(
                f"{self._spec.name} failed at {self._window.failures} of its last {self._window.conversations}"
                f" conversations, the last time with {error:.300}: it stops before more become dead letters"
                " (EUNOE_MAX_FAILED_SHARE)."
                " Mend or take back what was deployed and start it again: nothing was acknowledged."
                " What was set aside before can be sent back: `eunoe dead-letters retry`"
            )
        return self._given_up(work, error, attempts)

    def _given_up(self, work: Work[Any], error: str, attempts: int) -> DecisionResult:
        # a late session was passed on as skipped when its turn was
        events = () if work.late else self._spec.on_failure(work, error)
        rejection = Rejection(reason=DeadLetterReason.FAILED, error=error)
        skipped = self._spec.order.is_gapless
        return DecisionResult(Decision(events=events, rejection=rejection, skipped=skipped), attempts, failed=True)
