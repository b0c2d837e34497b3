"""Asks a stage for its decision: waits, retries, fails in the end, and stops the process when too much fails."""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from eunoe.schemas.decisions import Decision, Hold, Outcome, Park, Rejection, Wait, Work
from eunoe.schemas.errors import StateLost, Unavailable
from eunoe.schemas.events import SessionSkipped
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import newer_fault
from eunoe.streams.record import Lease, Revoked
from eunoe.streams.tracing import span
from eunoe.workers.models.questions.metering import DecidedBy, noting_answers
from eunoe.workers.models.questions.recording import asking_for
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.failure_limit import FailureLimit, FailureWindow, TooManyFailures
from eunoe.workers.runner.faults import MAX_ERROR_CHARS, describe_fault, fault_frames
from eunoe.workers.runner.metrics import Part, StageMeter
from eunoe.workers.runner.ordinary import is_ordinary
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome
from eunoe.workers.stage import ApplyOrder, BatchStage, FailureAwareStage, LossAwareStage, Stage, StageSpec

log = logging.getLogger(__name__)

SelfTest = Callable[[], Awaitable[bool]]
"""Decides known-good events without side effects; returns whether the stage passed."""
SELF_TEST_EVERY_S = 60.0
"""Seconds for which the result of a self-test counts."""
_WAIT_S = 0.05
"""Seconds until a stage that returned a `Wait` is asked again."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """Limits of retries, waits and failures."""

    attempts: int = 3
    """Attempts of a decision that raises, before the event is dead-lettered."""
    retry_limit_s: float = 600.0
    """Seconds to wait for a server before the process ends."""
    request_age_s: float = math.inf
    """Seconds after which a request is dropped unanswered; less than its ledger is kept (`REQUEST_TTL_S`)."""
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
    by: DecidedBy = DecidedBy.OFFLINE

    @property
    def outcome(self) -> RecordedOutcome | None:
        """The timing-dependent part, which is recorded together with the decision."""
        if self.failed and self.decision.rejection is not None:
            return RecordedOutcome(failed=self.decision.rejection.error, attempts=self.attempts)
        return None if self.decision.recorded is None else RecordedOutcome(recorded=self.decision.recorded)


class Decider:
    """Asks one stage until it has decided or failed."""

    def __init__(
        self,
        spec: StageSpec,
        stage: Stage,
        settings: RunnerSettings,
        meter: StageMeter,
        self_test: SelfTest | None = None,
    ) -> None:
        self._spec = spec
        self._stage = stage
        self._batch_stage = stage if isinstance(stage, BatchStage) else None  # asked once: it takes long
        self._settings = settings
        self._meter = meter
        self._window = FailureWindow(settings.failures)
        self._self_test = self_test
        self._tested_at: float | None = None
        self._passed = False

    async def decide(
        self, work: Work[Any], lease: Lease, recorded: RecordedOutcome, *, wait_expired: bool = False
    ) -> DecisionResult | Park | Hold:
        """The stage's decision, or the decision of its failure; ``recorded`` is the outcome to repeat.

        A stage that returns a `Wait` is asked again after a pause. Where the wait ``holds``, the result is a `Hold`
        once it has lasted as long as a server is waited for; at once with ``wait_expired``: one event of the
        conversation has waited that long already, and the next ones are not to wait again.

        Raises `Revoked` when a rebalance comes first, `Unavailable` when a server is away, `TooManyFailures` when the
        stage fails more often than its limit allows: then this event is not dead-lettered. Raises `StateLost` where
        state of the conversation cannot be read, but for a request: that fails. The fault of state that a newer version
        wrote (`newer_fault`) is raised as it is.
        """
        if not self._spec.gathers and isinstance(work.events[0], SessionSkipped):
            return DecisionResult(Decision(events=work.events, skipped=True))
        if recorded.failed is not None:
            return self._failure_decision(work, recorded.failed, recorded.attempts)
        waited_s, limit_s = 0.0, 0.0 if wait_expired else self._settings.retry_limit_s
        with noting_answers() as answers, asking_for(work.key):
            while isinstance(outcome := await self._tried(work, lease), Wait):
                if outcome.holds and waited_s >= limit_s:
                    return Hold(f"{outcome.reason}, after {waited_s:.0f} s: it was lost, or the event is forged")
                await self.pause(_WAIT_S, lease)
                waited_s += _WAIT_S
        if not isinstance(outcome, Decision):
            return outcome
        self._window.note(work.key, failed=False)
        return DecisionResult(outcome, by=answers.by)

    async def lost(self, key: str, events: Sequence[Any]) -> str | None:
        """The reason why events that a parked session waits for will not come; `None` where they may.

        Raises `Unavailable`.
        """
        stage = self._stage
        return await stage.lost(key, events) if isinstance(stage, LossAwareStage) else None

    def too_large(self, work: Work[Any], result: DecisionResult, excess: str) -> DecisionResult:
        """The decision of a failure, in place of one with messages over their topics' limits.

        The cause is the content, not the stage: the failure limit does not count it.
        """
        log.error("%s: %s, number %d: %s", self._spec.name, work.key, work.number, excess)
        return self._failure_decision(work, f"the decision is too large: {excess}", result.attempts)

    @property
    def decides_batches(self) -> bool:
        """Whether the stage can decide several events of a conversation before the first is committed."""
        return self._batch_stage is not None

    async def decide_batch(self, works: Sequence[Work[Any]]) -> Sequence[Decision] | None:
        """The stage's decisions of several events; `None` where it cannot or fails: decide each on its own then.

        Raises `Unavailable` when a server is away; what a newer version wrote is raised as it is (`newer_fault`).
        """
        if self._batch_stage is None:
            return None
        try:
            with (
                asking_for(works[0].key),
                self._meter.timed(Part.DECIDING),
                span(f"decide {self._spec.name}", {"eunoe.events": len(works)}),
            ):
                decisions = await self._batch_stage.decide_batch(works)
        except (Unavailable, Revoked):
            raise
        except Exception as error:
            if newer_fault(error) is not None:
                raise
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
                with self._meter.timed(Part.DECIDING), span(f"decide {self._spec.name}", {"eunoe.number": work.number}):
                    return await self._stage.decide(work)
            except StateLost as fault:
                if self._spec.order is not ApplyOrder.REQUEST:
                    raise
                # whoever asked is told at once: what other asks read of the conversation may be whole
                return self._failure_decision(work, str(fault), attempt + 1, DeadLetterReason.HELD)
            except (Unavailable, Revoked):
                raise
            except Exception as error:
                if newer_fault(error) is not None:  # the runner waits for the deploy
                    raise
                attempt += 1
                self._log(work, error, f"{work.number}, attempt {attempt}")
                if attempt >= self._settings.attempts:
                    return await self._failed(work, describe_fault(error), attempt)
            await self.pause(self._settings.backoff.pause(attempt), lease)

    def _log(self, work: Work[Any], error: Exception, number: str) -> None:
        frames = fault_frames(error)
        log.error(
            "stage failed: %s %s, number %s: %s\n%s", self._spec.name, work.key, number, describe_fault(error), frames
        )

    async def pause(self, seconds: float, lease: Lease) -> None:
        """Wait; raises `Revoked` when a rebalance begins."""
        with self._meter.timed(Part.WAITING), span("wait for state"):
            await lease.pause(seconds)

    async def _failed(self, work: Work[Any], error: str, attempts: int) -> DecisionResult:
        self._window.note(work.key, failed=True, ordinary=is_ordinary(work.events, work.log_time))
        if self._window.is_over and (self._window.is_over_ordinary or not await self._passes_self_test()):
            raise TooManyFailures(
                f"{self._spec.name} failed at {self._window.failures} of its last {self._window.conversations}"
                f" conversations, the last time with {error:.300}: it stops before more become dead letters"
                " (EUNOE_MAX_FAILED_SHARE)."
                " Fix or roll back the deployment and start the worker again: nothing of this event was acknowledged."
                " Retry the dead letters before it with `eunoe dead-letters retry`"
            )
        return self._failure_decision(work, error, attempts)

    async def _passes_self_test(self) -> bool:
        """Whether the stage decides a known-good conversation: then the odd events are at fault, not the stage."""
        if self._self_test is None:
            return False
        now = monotonic()
        if self._tested_at is None or now - self._tested_at >= SELF_TEST_EVERY_S:
            self._tested_at, self._passed = now, await self._self_test()
            if self._passed:
                log.error("%s fails at odd events of many conversations, and passes its self-test", self._spec.name)
        return self._passed

    def _failure_decision(
        self, work: Work[Any], error: str, attempts: int, reason: DeadLetterReason = DeadLetterReason.FAILED
    ) -> DecisionResult:
        aware = self._stage if isinstance(self._stage, FailureAwareStage) else None
        report = self._spec.on_failure if aware is None else aware.failure_events
        # a late session was passed on as skipped in its turn
        events = () if work.late else report(work, error[:MAX_ERROR_CHARS])
        rejection = Rejection(reason=reason, error=error)
        skipped = self._spec.order.is_gapless
        return DecisionResult(Decision(events=events, rejection=rejection, skipped=skipped), attempts, failed=True)
