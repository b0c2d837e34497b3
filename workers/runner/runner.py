"""The runner: the one commit path of all stages. It commits each decision of a stage once, in order.

The order of a commit is: decide → one transaction in the state store (state, ``applied``, outbox) →
points → messages → mark sent → acknowledge. A crash anywhere leaves either nothing or an unsent outbox, which the next
owner sends first. The transaction checks that ``applied`` (and the count of late sessions) is still what was read, and
that nothing is unsent: that fences a process that slept through a rebalance.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Commit, Ledger, Park, Rejection, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import DeadLetterReason, SessionEvent
from eunoe.schemas.ports import ParkingLot
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.record import Lease, Record, Revoked
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.batches import Arrived, BatchApplier, split_batch
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.decider import Decider, RunnerSettings
from eunoe.workers.runner.inbound import LogPlace, OrderedEvent, Promotion, read_record
from eunoe.workers.runner.metrics import Part
from eunoe.workers.runner.outbox import DecisionStamp, Sender, compose_outbox, excess_in
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome, RecordedOutcomes, outcome_message
from eunoe.workers.stage import Stage, StageSpec

T = TypeVar("T")

log = logging.getLogger(__name__)


class Runner:
    """Handles the records of one stage."""

    def __init__(  # noqa: PLR0913 - the one place where a stage meets its surroundings
        self,
        spec: StageSpec,
        stage: Stage,
        sender: Sender,
        parking: ParkingLot,
        place: LogPlace,
        settings: RunnerSettings,
        *,
        outcomes: RecordedOutcomes | None = None,
        outages: Outages | None = None,
    ) -> None:
        """``outages``: shared by all runners of a process."""
        self._spec = spec
        self._sender = sender
        self._meter = sender.meter
        self._parking = parking
        self._place = place
        self._settings = settings
        self._outcomes = outcomes or RecordedOutcomes()
        self._outages = outages or Outages()
        self._decider = Decider(spec, stage, settings, sender.meter)
        self._committer = Committer(sender, place)
        self._batches = BatchApplier(spec, self._decider, self._committer, self._outcomes)

    async def handle(self, record: Record, lease: Lease) -> None:
        """Handle a record completely; when this returns, the record may be acknowledged.

        Raises `Revoked` when a rebalance comes first, `Fenced` when another process has committed, `Unavailable`
        when a server stays away: none of them may be acknowledged.
        """
        await self._retried(lambda lease: self._handle(record, lease), lease)
        self._meter.events += 1

    async def handle_batch(self, records: Sequence[Record], lease: Lease) -> None:
        """Handle records of one key completely, in their order; where the stage allows it, several in one commit.

        Raises as `handle`. `Revoked` between two records: those before it are delivered again, and change nothing.
        """
        batches: list[tuple[Arrived, ...]] = [() for _ in records]
        if len(records) > 1 and self._decider.decides_batches:
            batches = split_batch(records, self._spec, lambda record: read_record(record, self._spec, self._place))
        left = iter(records)
        for before, batch in enumerate(batches):
            of_batch = [next(left) for _ in batch or (None,)]
            _check_lease(lease, before)
            if len(batch) > 1 and await self._retried(partial(self._apply_batch, batch), lease):
                continue
            for done, record in enumerate(of_batch):
                _check_lease(lease, done)
                await self.handle(record, lease)

    async def _apply_batch(self, batch: Sequence[Arrived], _lease: Lease) -> bool:
        return await self._batches.apply(batch)

    async def _retried(self, work: Callable[[Lease], Awaitable[T]], lease: Lease) -> T:
        """Repeat ``work`` while servers are away, up to the retry limit."""
        with self._outages.retrying(lease, self._settings.backoff, self._settings.retry_limit_s) as retry:
            while True:
                try:
                    return await work(retry)
                except Unavailable as fault:
                    with self._meter.timed(Part.WAITING):
                        await retry.wait(fault)

    async def _handle(self, record: Record, lease: Lease) -> None:
        ordered = read_record(record, self._spec, self._place)
        if isinstance(ordered, Rejection):
            await self._dead_letter(record, ordered)
        elif isinstance(ordered, Promotion):
            await self._promote(ordered, record)
        elif ordered is not None and self._spec.gathers:
            await self._gather(ordered, record, lease)
        elif ordered is not None:
            await self._apply(ordered, record, lease)

    async def _promote(self, found: Promotion, record: Record) -> None:
        """Let another generation answer from here on, if it was announced: anybody can produce such a record."""
        positions, where = self._sender.log_positions, (record.partition, found.position, found.generation)
        if await positions.was_announced(*where, found.nonce):
            await positions.promote(*where)
        else:
            error = f"nobody announced that {found.generation} answers from here on: use `eunoe promote`"
            await self._dead_letter(record, Rejection(reason=DeadLetterReason.INVALID, error=error))

    async def _apply(self, ordered: OrderedEvent, record: Record, lease: Lease) -> None:
        ledger = await self._committer.flushed(ordered.scope)
        if ordered.number <= ledger.applied:
            if ordered.late:
                await self._apply_late(ordered, ledger, record, lease)
            else:
                self._meter.ignored += 1
            return
        if self._spec.order.is_gapless and ordered.number > ledger.applied + 1:
            await self._hold(ordered, ledger, record)
            return
        await self._decide_and_commit(ordered, (ordered.event,), ledger, record, lease)

    async def _gather(self, ordered: OrderedEvent, record: Record, lease: Lease) -> None:
        """Park the event, then apply every next session that is complete."""
        ledger = await self._committer.flushed(ordered.scope)
        if ordered.number > ledger.applied and await self._is_beyond(ordered, ledger):
            await self._hold(ordered, ledger, record)
            return
        if ordered.number > ledger.applied:
            with self._meter.timed(Part.APPLYING):
                text = encode(ordered.event).decode()
                await self._parking.park(ordered.scope, ordered.number, _slot(ordered.event), text)
        elif ordered.late:
            await self._apply_late(ordered, ledger, record, lease)
        while await self._apply_parked(ordered, record, lease):
            pass

    async def _is_beyond(self, ordered: OrderedEvent, ledger: Ledger) -> bool:
        """Whether a session before it is missing: too many would wait, or its predecessor never came."""
        if ordered.number > ledger.applied + self._settings.max_parked:
            return True
        slots = self._spec.ordered_event_types
        if _slot(ordered.event) not in slots or ordered.number == ledger.applied + 1:
            return False
        if slots & (await self._parked(ordered.scope, ordered.number - 1)).keys():
            return False
        # a fenced process may have applied that session, and deleted its parts, between the two reads
        return (await self._committer.flushed(ordered.scope)).applied == ledger.applied

    async def _apply_parked(self, ordered: OrderedEvent, record: Record, lease: Lease) -> bool:
        ledger = await self._committer.flushed(ordered.scope)
        parked = await self._parked(ordered.scope, ledger.applied + 1)
        if not parked:
            # nothing came; or a fenced process has just committed it, and may end before it sends the outbox
            return (await self._committer.flushed(ordered.scope)).applied > ledger.applied
        next_up = replace(ordered, number=ledger.applied + 1)
        return await self._decide_and_commit(next_up, _in_order(parked), ledger, record, lease)

    async def _apply_late(self, ordered: OrderedEvent, ledger: Ledger, record: Record, lease: Lease) -> None:
        """Decide a late session once, if it was skipped in its turn.

        The events of a session that a gathering stage failed at are still parked. The retried event is one of them, or
        one of another session that only triggered the decision.
        """
        if ordered.number not in ledger.skipped:
            log.info("%s: %s, late session %d was not skipped here", self._spec.name, record.key, ordered.number)
            return
        gathered = await self._parked(ordered.scope, ordered.number) if self._spec.gathers else {}
        if not isinstance(ordered.event, SessionEvent) or ordered.event.session == ordered.number:
            gathered[_slot(ordered.event)] = ordered.event
        if gathered:
            await self._decide_and_commit(ordered, _in_order(gathered), ledger, record, lease)

    async def _parked(self, scope: Scope, number: int) -> dict[str, Contract]:
        with self._meter.timed(Part.APPLYING):
            parked = await self._parking.parked(scope, number)
        return {slot: decode(text.encode()) for slot, text in parked.items()}

    async def _decide_and_commit(
        self, ordered: OrderedEvent, events: Sequence[Contract], ledger: Ledger, record: Record, lease: Lease
    ) -> bool:
        """Decide, commit and send; returns false where the stage parked the events instead."""
        late = ordered.number <= ledger.applied
        outcome = None if late else await self._outcomes.recall(ordered.scope, ordered.number)
        work = replace(
            await self._committer.work(ordered, events, record),
            recorded=None if outcome is None else outcome.recorded,
            late_after=ledger.applied if late else None,
        )
        result = await self._decider.decide(work, lease, outcome or RecordedOutcome())
        if isinstance(result, Park):
            return False
        stamp = DecisionStamp(ordered.number, result.attempts, ledger.lates + 1 if late else None)
        outbox = compose_outbox(self._spec, result.decision, record, stamp)
        if excess := excess_in(outbox):
            result = self._decider.too_large(work, result, excess)
            outbox = compose_outbox(self._spec, result.decision, record, stamp)
        if (result.outcome or late) and not ordered.scope.request_id:
            outbox = outbox.with_message(outcome_message(ordered.scope, ordered.number, result.outcome))
        await self._committer.commit(
            ordered.scope,
            Commit(
                expect=ledger.applied,
                applied=max(ordered.number, ledger.applied),
                lates=ledger.lates,
                late=ordered.number if late else None,
                writes=result.decision.writes,
                outbox=None if outbox.empty else outbox,
                skip=result.decision.skipped,
                # the events of a failed decision stay parked, for a retry
                unpark=ordered.number if self._spec.gathers and not result.failed else None,
            ),
        )
        return True

    async def _hold(self, ordered: OrderedEvent, ledger: Ledger, record: Record) -> None:
        unit = self._spec.order.value
        error = (
            f"{unit} {ordered.number} came, but {self._spec.name} has applied only {ledger.applied}:"
            " the state store lost acknowledged writes; the conversation is held until it is repaired"
        )
        log.error("HELD %s: %s", ordered.scope.key, error)
        await self._dead_letter(record, Rejection(reason=DeadLetterReason.HELD, error=error))

    async def _dead_letter(self, record: Record, rejection: Rejection) -> None:
        where = f"{record.topic}/{record.partition}@{record.offset}"
        log.warning("%s: dead letter of %s: %s: %s", self._spec.name, where, rejection.reason, rejection.error)
        letter = dead_letter(record, self._spec.name, rejection.reason, rejection.error)
        await self._sender.publisher.publish([letter])


def _check_lease(lease: Lease, done: int) -> None:
    """Raise `Revoked` where a rebalance has begun and some records are done: the others are for the next owner."""
    if done and lease.revoked:
        raise Revoked("a rebalance or a shutdown has begun")


def _slot(event: Contract) -> str:
    return event.slot if isinstance(event, SessionEvent) else event.type_tag()


def _in_order(gathered: Mapping[str, Contract]) -> list[Contract]:
    return [event for _, event in sorted(gathered.items())]
