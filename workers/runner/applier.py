"""Applies the events of one stage, each once and in its turn; parks what comes early, holds where something is lost."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Commit, Hold, Ledger, Outbox, Park, Rejection, Scope, Work
from eunoe.schemas.errors import StateLost, TornRead
from eunoe.schemas.events import SessionEvent
from eunoe.schemas.ports import ParkingLot
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import encode
from eunoe.streams.record import Lease
from eunoe.streams.tracing import current
from eunoe.workers.runner.dead_letter_sender import DeadLetterSender
from eunoe.workers.runner.decider import DecisionResult
from eunoe.workers.runner.inbound import OrderedEvent, read_parked
from eunoe.workers.runner.metrics import Part
from eunoe.workers.runner.outbox import DecisionStamp, compose_outbox, excess_in
from eunoe.workers.runner.parts import RunnerContext, StageParts
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome, outcome_message
from eunoe.workers.stores.state.cached_state import StaleState

log = logging.getLogger(__name__)

LOST_AFTER_S = 30.0
"""Seconds that a conversation is parked before its stage is asked whether what it waits for is lost."""


class ApplyResult(Enum):
    """The result of applying the next number of a conversation."""

    APPLIED = auto()
    PARKED = auto()
    """It waits for further events."""
    HELD = auto()
    """The conversation is held."""


class EventApplier:
    """Decides and commits single events of one stage."""

    def __init__(
        self, parts: StageParts, parking: ParkingLot, context: RunnerContext, dead_letters: DeadLetterSender
    ) -> None:
        self._spec = parts.spec
        self._decider = parts.decider
        self._committer = parts.committer
        self._outcomes = parts.outcomes
        self._observer = parts.observer
        self._log_epoch = parts.log_epoch
        self._parking = parking
        self._max_parked = context.settings.max_parked
        self._blocked = context.blocked
        self._loss_detector = context.loss_detector
        self._dead_letters = dead_letters
        self._meter = parts.committer.sender.meter
        self._suspects: dict[str, int] = {}

    async def _ledger(self, ordered: OrderedEvent) -> Ledger:
        """The ledger for an event; from the cache only where a decision follows, whose commit is fenced."""
        ledger = await self._committer.flushed(ordered.scope)
        is_next = ordered.number <= ledger.applied + 1 or not self._spec.order.is_gapless
        return ledger if is_next and not ordered.late else await self._committer.flushed_uncached(ordered.scope)

    async def apply(self, ordered: OrderedEvent, lease: Lease) -> None:
        """Apply an event once, in its turn. Raises `Fenced`, `Unavailable` and what `Decider.decide` raises."""
        if await self._committer.applied_before_cold(ordered):
            self._meter.ignored += 1
            return
        ledger = await self._ledger(ordered)
        if ordered.number <= ledger.applied:
            if ordered.late:
                await self._apply_late(ordered, ledger, lease)
            else:
                self._meter.ignored += 1
            return
        if self._spec.order.is_gapless and ordered.number > ledger.applied + 1:
            await self._hold(ordered, ledger)
            return
        await self._decide_and_commit(ordered, (ordered.event,), ledger, lease)

    async def gather(self, ordered: OrderedEvent, lease: Lease) -> None:
        """Apply the event's session where the event completes it, park it otherwise; then apply what it has held up."""
        ledger = await self._ledger(ordered)
        if ordered.number > ledger.applied:
            if await self._is_beyond(ordered, ledger):
                await self._hold(ordered, ledger)
                return
            progress = await self._apply_complete(ordered, ledger, lease)
            if progress is ApplyResult.HELD:
                return
            if progress is ApplyResult.PARKED:
                await self._park(ordered)
                self._blocked.park(ordered)
        elif ordered.late:
            await self._apply_late(ordered, ledger, lease)
        while await self._apply_parked(ordered, lease):
            pass

    async def _apply_complete(self, ordered: OrderedEvent, ledger: Ledger, lease: Lease) -> ApplyResult:
        """Apply the event's session without parking if it is the next one and may be complete: most are."""
        slot = _slot(ordered.event)
        if ordered.number != ledger.applied + 1 or slot not in self._spec.ordered_event_types:
            return ApplyResult.PARKED
        gathered = {slot: ordered.event} | await self._parked(ordered.scope, ordered.number)
        return await self._decide_and_commit(ordered, _in_order(gathered), ledger, lease)

    async def _park(self, ordered: OrderedEvent) -> None:
        slot = _slot(ordered.event)
        with self._meter.timed(Part.APPLYING):
            await self._parking.park(ordered.scope, ordered.number, slot, encode(ordered.event).decode())
        if self._loss_detector is not None:
            self._loss_detector.note_parked(ordered.scope, ordered.number, slot)

    async def _is_beyond(self, ordered: OrderedEvent, ledger: Ledger) -> bool:
        """Whether a session before it is missing: too many would wait, or its predecessor never came."""
        if ordered.number > ledger.applied + self._max_parked:
            return True
        slots = self._spec.ordered_event_types
        if _slot(ordered.event) not in slots or ordered.number == ledger.applied + 1:
            return False
        if slots & (await self._parked(ordered.scope, ordered.number - 1)).keys():
            return False
        # a fenced process may have applied that session, and deleted its parts, between the two reads
        return (await self._committer.flushed_uncached(ordered.scope)).applied == ledger.applied

    async def _apply_parked(self, ordered: OrderedEvent, lease: Lease) -> bool:
        ledger = await self._committer.flushed(ordered.scope)
        parked = await self._parked(ordered.scope, ledger.applied + 1)
        if not parked:
            # nothing came; or a fenced process has just committed it, and may end before it sends the outbox
            if await self._parking.progress(ordered.scope) == (ledger.applied, ledger.lates):
                return False
            return (await self._committer.flushed_uncached(ordered.scope)).applied > ledger.applied
        number = ledger.applied + 1
        next_up = replace(ordered, number=number, passed_over=ordered.passed_over if number == ordered.number else None)
        progress = await self._decide_and_commit(next_up, _in_order(parked), ledger, lease)
        return progress is ApplyResult.APPLIED

    async def _apply_late(self, ordered: OrderedEvent, ledger: Ledger, lease: Lease) -> None:
        """Decide a late session once, if it was skipped in its turn.

        The events of a session that a gathering stage failed at are still parked. The retried event is one of them, or
        one of another session that only triggered the decision.
        """
        if ordered.number not in ledger.skipped:
            log.info(
                "%s: %s, late session %d was not skipped here", self._spec.name, ordered.record.key, ordered.number
            )
            return
        gathered = await self._parked(ordered.scope, ordered.number) if self._spec.gathers else {}
        if not isinstance(ordered.event, SessionEvent) or ordered.event.session == ordered.number:
            gathered[_slot(ordered.event)] = ordered.event
        if gathered:
            await self._decide_and_commit(ordered, _in_order(gathered), ledger, lease)

    async def _parked(self, scope: Scope, number: int) -> dict[str, Contract]:
        with self._meter.timed(Part.APPLYING):
            parked = await self._parking.parked(scope, number)
        return {slot: read_parked(text, scope.key) for slot, text in parked.items()}

    async def _decide_and_commit(
        self, ordered: OrderedEvent, events: Sequence[Contract], ledger: Ledger, lease: Lease
    ) -> ApplyResult:
        """Decide, commit and send, unless more events are needed or the conversation must be held."""
        work, outcome = await self._work(ordered, events, ledger)
        result = await self._decide(ordered.scope, work, lease, outcome, ledger)
        if isinstance(result, Park):
            self._blocked.park(ordered)
            # nothing is committed, so no fence notices that the cached ledger is outdated, or its outbox unsent
            anew = await self._committer.flushed_uncached(ordered.scope)
            return ApplyResult.APPLIED if anew.applied > ledger.applied else ApplyResult.PARKED
        if isinstance(result, Hold):
            self._blocked.note_expired_wait(work.key)
            await self.hold_because(result.reason, ordered)
            return ApplyResult.HELD
        here = current()
        lates = ledger.lates + 1 if work.late else None
        stamp = DecisionStamp(ordered.number, result.attempts, lates, work.replayed, here.traceparent, self._log_epoch)
        result, outbox = self._outbox(ordered, work, result, stamp)
        await self._committer.commit(ordered.scope, self._commit(ordered.number, ledger, result, outbox))
        self._blocked.note_commit(ordered.scope.key)
        self._observer.committed(ordered, work, (result.decision, result.by), here)
        return ApplyResult.APPLIED

    async def _work(
        self, ordered: OrderedEvent, events: Sequence[Contract], ledger: Ledger
    ) -> tuple[Work[Any], RecordedOutcome]:
        """The work to decide, and its outcome as far as one is recorded or an operator has said it."""
        late = ordered.number <= ledger.applied
        outcome = None if late else await self._outcomes.recall(ordered.scope, ordered.number)
        if ordered.passed_over is not None:
            outcome = RecordedOutcome(failed=ordered.passed_over, attempts=1)
        work = replace(
            await self._committer.work(ordered, events),
            recorded=None if outcome is None else outcome.recorded,
            late_after=ledger.applied if late else None,
        )
        return work, outcome or RecordedOutcome()

    def _outbox(
        self, ordered: OrderedEvent, work: Work[Any], result: DecisionResult, stamp: DecisionStamp
    ) -> tuple[DecisionResult, Outbox]:
        """The messages of a decision, and the decision: a failure in place of one whose messages are too large."""
        outbox = compose_outbox(self._spec, result.decision, ordered.record, stamp)
        if excess := excess_in(outbox):
            result = self._decider.too_large(work, result, excess)
            outbox = compose_outbox(self._spec, result.decision, ordered.record, stamp)
        if (result.outcome or work.late) and not ordered.scope.request_id:
            outbox = outbox.with_message(outcome_message(ordered.scope, stamp.number, result.outcome))
        return result, outbox

    def _commit(self, number: int, ledger: Ledger, result: DecisionResult, outbox: Outbox) -> Commit:
        """The commit of a decision on the event of ``number``, read from this ledger."""
        return Commit(
            expect=ledger.applied,
            applied=max(number, ledger.applied),
            lates=ledger.lates,
            late=number if number <= ledger.applied else None,
            writes=result.decision.writes,
            outbox=None if outbox.empty else outbox,
            skip=result.decision.skipped,
            # the events of a failed decision stay parked, for a retry
            unpark=number if self._spec.gathers and not result.failed else None,
            server=ledger.server,
            checks_server=bool(self._spec.reads),
            key=ledger.key,
            after=ledger.token,
        )

    async def _decide(
        self, scope: Scope, work: Work[Any], lease: Lease, outcome: RecordedOutcome, ledger: Ledger
    ) -> DecisionResult | Park | Hold:
        wait_expired = self._blocked.has_expired_wait(work.key)
        try:
            return await self._decider.decide(work, lease, outcome, wait_expired=wait_expired)
        except TornRead:
            self._committer.forget(scope)  # a part of it may come from the cache
            raise
        except StateLost as fault:
            # documents of before and after another process's commit, or a way to the cold store, look like damage, too
            anew = await self._committer.flushed_uncached(scope)
            if (anew, anew.server, anew.token) != (ledger, ledger.server, ledger.token):
                raise StaleState(f"{scope.stage}: {scope.key} was changed while it was read") from fault
            raise

    async def hold_lost(self, caught_up: Collection[tuple[str, int]]) -> None:
        """Hold conversations that wait for an event that was sent and never came; call it every few seconds.

        ``caught_up``: the partitions that were read to their ends since the last call. A loss must be seen by two calls
        in a row: the event may have been sent between them. Raises `Unavailable`.
        """
        suspects = {}
        for ordered in self._blocked.parked_for(LOST_AFTER_S):
            try:
                ledger = await self._committer.flushed_uncached(ordered.scope)
                parked = await self._parked(ordered.scope, ledger.applied + 1)
                lost = await self._decider.lost(ordered.scope.key, _in_order(parked)) if parked else None
            except StateLost as fault:  # the others that wait are looked at all the same
                await self.hold_because(str(fault), ordered)
                continue
            if lost is None:
                continue
            suspects[ordered.scope.key] = ledger.applied
            is_read = (str(ordered.record.topic), ordered.record.partition) in caught_up
            if is_read and self._suspects.get(ordered.scope.key) == ledger.applied:
                await self.hold_because(lost, ordered)
        self._suspects = suspects

    async def _hold(self, ordered: OrderedEvent, ledger: Ledger) -> None:
        unit = self._spec.order.value
        error = (
            f"{unit} {ordered.number} came, but {self._spec.name} has applied only {ledger.applied}:"
            " the state store lost acknowledged writes; the conversation is held until it is repaired"
        )
        await self.hold_because(error, ordered)

    async def hold_because(self, error: str, ordered: OrderedEvent) -> None:
        """Hold the conversation of an event until it is repaired; the event becomes a dead letter."""
        if self._loss_detector is not None:
            await self._loss_detector.verify(ordered.scope)
        log.error("HELD %s: %s", ordered.scope.key, error)
        self._blocked.hold(ordered.scope.key)
        await self._dead_letters.send(ordered.record, Rejection(reason=DeadLetterReason.HELD, error=error))


def _slot(event: Contract) -> str:
    return event.slot if isinstance(event, SessionEvent) else event.type_tag()


def _in_order(gathered: Mapping[str, Contract]) -> list[Contract]:
    return [event for _, event in sorted(gathered.items())]
