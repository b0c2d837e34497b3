"""The runner: the one commit path of all stages. It commits each decision of a stage once, in order.

The order of a commit is: decide → one transaction in the state store (state, ``applied``, outbox) →
points → messages → mark sent → acknowledge. A crash anywhere leaves either nothing or an unsent outbox, which the next
owner sends first. The transaction checks that ``applied`` (and the count of late sessions) is still what was read, and
that nothing is unsent: that fences a process that slept through a rebalance.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from eunoe.schemas.base import Contract
from eunoe.schemas.decisions import Commit, Hold, Ledger, Park, Rejection, Scope
from eunoe.schemas.errors import SnapshotLost, Unavailable
from eunoe.schemas.events import DeadLetterReason, SessionEvent
from eunoe.schemas.keys import KeyStore
from eunoe.schemas.ports import ParkingLot
from eunoe.schemas.versions import ContractError
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import dead_letter
from eunoe.streams.position import is_copy, record_position
from eunoe.streams.record import Lease, Record, Revoked
from eunoe.streams.sealed_log import logged
from eunoe.streams.sealed_records import open_record
from eunoe.streams.tracing import current, processing, span
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.runner.batches import Arrived, BatchApplier, split_batch
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.continuity import Continuity
from eunoe.workers.runner.decider import Decider, RunnerSettings, SelfTest
from eunoe.workers.runner.faults import describe_fault
from eunoe.workers.runner.inbound import LogPlace, NewerSchema, OrderedEvent, Promotion, read_record
from eunoe.workers.runner.metrics import Part
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.outbox import DecisionStamp, Sender, compose_outbox, excess_in
from eunoe.workers.runner.recorded_outcomes import RecordedOutcome, RecordedOutcomes, outcome_message
from eunoe.workers.runner.refused_asks import error_answers
from eunoe.workers.runner.skips import PassedOver, Skips, WatchfulLease
from eunoe.workers.runner.standing import StandingConversations
from eunoe.workers.runner.steady_time import steady_now
from eunoe.workers.stage import ApplyOrder, Stage, StageSpec
from eunoe.workers.stores.at_hand import StaleState
from eunoe.workers.stores.uncommitted import UncommittedState

T = TypeVar("T")


class Progress(Enum):
    """What became of the next number of a conversation."""

    APPLIED = auto()
    PARKED = auto()
    """It waits for further events."""
    HELD = auto()
    """The conversation is held."""


log = logging.getLogger(__name__)

_EXPIRED_PER_LINE = 1000
"""Requests dropped for each line of the log."""


LOST_AFTER_S = 30.0
"""Seconds that a conversation is parked before its stage is asked whether what it waits for is lost."""


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
        now: Callable[[], datetime] = steady_now,
        skips: Skips | None = None,
        standing: StandingConversations | None = None,
        self_test: SelfTest | None = None,
        continuity: Continuity | None = None,
        data_keys: KeyStore | None = None,
        uncommitted: UncommittedState | None = None,
    ) -> None:
        """``outages``, ``skips``: shared by all runners of a process. ``now``: the time by which requests grow old.

        ``uncommitted``: as for `Decider`.
        """
        self._spec = spec
        self._sender = sender
        self._meter = sender.meter
        self._parking = parking
        self._place = place
        self._settings = settings
        self._outcomes = outcomes or RecordedOutcomes()
        self._outages = outages or Outages()
        self._now = now
        self._skips = skips or Skips()
        self._standing = standing or StandingConversations()
        self._suspects: dict[str, int] = {}
        self._decider = Decider(spec, stage, settings, sender.meter, self_test, uncommitted)
        self._continuity = continuity
        self._data_keys = data_keys
        self._committer = Committer(sender, place, continuity, data_keys)
        self._observer = Observer(spec, sender.meter, now)
        self._log_epoch = place.epoch if spec.reads_log and data_keys is not None else None
        self._batches = BatchApplier(
            spec, self._decider, self._committer, self._outcomes, self._observer, self._log_epoch
        )

    async def handle(self, record: Record, lease: Lease) -> None:
        """Handle a record completely; when this returns, the record may be acknowledged.

        An event of a newer schema is waited for as long as for a server; then it is a dead letter, because anybody who
        can produce into the topic can claim a version.

        Raises `Revoked` when a rebalance comes first or the state store went back, `Fenced` when another process has
        committed, `Unavailable` when a server stays away: none of them may be acknowledged.
        """
        with processing(record, self._spec.name):
            try:
                await self._retried(lambda lease: self._handle(record, lease), lease)
            except NewerSchema as fault:
                rejection = Rejection(reason=DeadLetterReason.NEWER_VERSION, error=str(fault))
                await self._retried(lambda _: self._dead_letter(record, rejection), lease)
        self._meter.events += 1

    async def handle_batch(self, records: Sequence[Record], lease: Lease) -> None:
        """Handle records of one key completely, in their order; where the stage allows it, several in one commit.

        Raises as `handle`. `Revoked` between two records: those before it are delivered again, and change nothing.
        """
        batches: list[tuple[Arrived, ...]] = [() for _ in records]
        if len(records) > 1 and self._decider.decides_batches:
            batches = split_batch(await self._opened(records), self._spec, self._read)
        left = iter(records)
        for before, batch in enumerate(batches):
            of_batch = [next(left) for _ in batch or (None,)]
            _check_lease(lease, before)
            done = await self._retried(partial(self._apply_batch, batch), lease) if len(batch) > 1 else 0
            for after, record in enumerate(of_batch[done:], done):
                _check_lease(lease, after)
                await self.handle(record, lease)

    async def _opened(self, records: Sequence[Record]) -> list[Record]:
        """The records unsealed; one that cannot be stays as it is, and is handled alone."""
        try:
            found = [await self._open(record) for record in records]
        except Unavailable:
            return list(records)
        return [opened if isinstance(opened, Record) else record for record, opened in zip(records, found, strict=True)]

    async def _apply_batch(self, batch: Sequence[Arrived], _lease: Lease) -> int:
        while True:
            try:
                return await self._batches.apply(batch)
            except StaleState:
                self._meter.stale += 1
            except SnapshotLost:
                return 0

    async def _retried(self, work: Callable[[Lease], Awaitable[T]], lease: Lease) -> T:
        """Repeat ``work`` while servers are away, up to the retry limit."""
        with self._outages.retrying(lease, self._settings.backoff, self._settings.retry_limit_s) as retry:
            while True:
                try:
                    return await work(retry)
                except Unavailable as fault:
                    with self._meter.timed(Part.WAITING), span("wait for server", {"server.address": fault.server}):
                        await retry.wait(fault)

    async def _handle(self, record: Record, lease: Lease) -> None:
        watchful: Lease = WatchfulLease(lease, self._skips, record)
        while True:
            try:
                return await self._handle_once(record, watchful)
            except PassedOver:
                watchful = lease
            except StaleState:
                self._meter.stale += 1

    async def _handle_once(self, record: Record, lease: Lease) -> None:
        opened = await self._open(record)
        if opened is None:
            self._meter.erased += 1
            return
        ordered = opened if isinstance(opened, Rejection) else self._read(opened)
        record = record if isinstance(opened, Rejection) else opened
        if isinstance(ordered, Rejection):
            await self._dead_letter(record, ordered)
        elif isinstance(ordered, Promotion):
            await self._promote(ordered, record)
        elif ordered is not None and self._is_expired(ordered):
            self._drop(record)
        elif ordered is not None:
            try:
                await (self._gather if self._spec.gathers else self._apply)(ordered, record, lease)
            except SnapshotLost as fault:  # waiting for it would only stop the other conversations
                await self._hold_because(str(fault), ordered, record)

    async def _open(self, record: Record) -> Record | Rejection | None:
        """The record unsealed; `None` for one whose key was destroyed. One that an operator passes over stays sealed.

        Raises `Unavailable` where its key is missing.
        """
        if self._skips.reason(record) is not None:
            return record
        try:
            return await open_record(record, self._data_keys)
        except ContractError as error:
            return Rejection(reason=error.reason, error=str(error))

    def _is_expired(self, ordered: OrderedEvent) -> bool:
        """Whether the ledger of this request may be gone, so that nothing tells whether it was answered."""
        if self._spec.order is not ApplyOrder.REQUEST:
            return False
        return (self._now() - ordered.log_time).total_seconds() > self._settings.request_age_s

    def _drop(self, record: Record) -> None:
        self._meter.expired += 1
        if self._meter.expired % _EXPIRED_PER_LINE == 1:
            log.warning(
                "%s: %d requests dropped so far, each over %.0f s old, the last one %s/%d@%d",
                self._spec.name,
                self._meter.expired,
                self._settings.request_age_s,
                record.topic,
                record.partition,
                record.offset,
            )

    def _read(self, record: Record) -> OrderedEvent | Promotion | Rejection | None:
        """The event of a record; one that an operator passes over is not decided, nor waited for."""
        reason = self._skips.reason(record)
        if reason is None:
            return read_record(record, self._spec, self._place)
        rejection = Rejection(reason=DeadLetterReason.FAILED, error=reason)
        try:
            ordered = read_record(record, self._spec, self._place)
        except Exception as error:
            log.warning("%s: not readable: %s", self._spec.name, describe_fault(error))
            return rejection
        if isinstance(ordered, Promotion):
            return rejection
        return replace(ordered, passed_over=reason) if isinstance(ordered, OrderedEvent) else ordered

    async def _promote(self, found: Promotion, record: Record) -> None:
        """Let another generation answer from here on, if it was announced: anybody can produce such a record."""
        positions, where = self._sender.log_positions, (record.partition, found.position, found.generation)
        if await positions.was_announced(*where, found.nonce):
            if self._log_epoch is not None:
                message = logged(record, self._log_epoch)
                await self._sender.publisher.publish([replace(message, partition=record.partition)])
            await positions.promote(*where)
        else:
            error = f"nobody announced that {found.generation} answers from here on: use `eunoe promote`"
            await self._dead_letter(record, Rejection(reason=DeadLetterReason.INVALID, error=error))

    async def _ledger(self, ordered: OrderedEvent) -> Ledger:
        """The ledger for an event; one at hand only where no more follows from it than a decision, which is fenced."""
        ledger = await self._committer.flushed(ordered.scope)
        is_next = ordered.number <= ledger.applied + 1 or not self._spec.order.is_gapless
        return ledger if is_next and not ordered.late else await self._committer.flushed_anew(ordered.scope)

    async def _apply(self, ordered: OrderedEvent, record: Record, lease: Lease) -> None:
        ledger = await self._ledger(ordered)
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
        """Apply the event's session where the event completes it, park it otherwise; then apply what it has held up."""
        ledger = await self._ledger(ordered)
        if ordered.number > ledger.applied:
            if await self._is_beyond(ordered, ledger):
                await self._hold(ordered, ledger, record)
                return
            progress = await self._apply_complete(ordered, ledger, record, lease)
            if progress is Progress.HELD:
                return
            if progress is Progress.PARKED:
                await self._park(ordered)
                self._standing.park(ordered, record)
        elif ordered.late:
            await self._apply_late(ordered, ledger, record, lease)
        while await self._apply_parked(ordered, record, lease):
            pass

    async def _apply_complete(self, ordered: OrderedEvent, ledger: Ledger, record: Record, lease: Lease) -> Progress:
        """Apply the event's session at once if it is the next one, and this its last event: most need not be parked."""
        slot = _slot(ordered.event)
        if ordered.number != ledger.applied + 1 or slot not in self._spec.ordered_event_types:
            return Progress.PARKED
        gathered = {slot: ordered.event} | await self._parked(ordered.scope, ordered.number)
        return await self._decide_and_commit(ordered, _in_order(gathered), ledger, record, lease)

    async def _park(self, ordered: OrderedEvent) -> None:
        slot = _slot(ordered.event)
        with self._meter.timed(Part.APPLYING):
            await self._parking.park(ordered.scope, ordered.number, slot, encode(ordered.event).decode())
        if self._continuity is not None:
            self._continuity.note_parked(ordered.scope, ordered.number, slot)

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
        return (await self._committer.flushed_anew(ordered.scope)).applied == ledger.applied

    async def _apply_parked(self, ordered: OrderedEvent, record: Record, lease: Lease) -> bool:
        ledger = await self._committer.flushed(ordered.scope)
        parked = await self._parked(ordered.scope, ledger.applied + 1)
        if not parked:
            # nothing came; or a fenced process has just committed it, and may end before it sends the outbox
            if await self._parking.progress(ordered.scope) == (ledger.applied, ledger.lates):
                return False
            return (await self._committer.flushed_anew(ordered.scope)).applied > ledger.applied
        number = ledger.applied + 1
        next_up = replace(ordered, number=number, passed_over=ordered.passed_over if number == ordered.number else None)
        progress = await self._decide_and_commit(next_up, _in_order(parked), ledger, record, lease)
        return progress is Progress.APPLIED

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
    ) -> Progress:
        """Decide, commit and send, unless more events are needed or the conversation must be held."""
        late = ordered.number <= ledger.applied
        outcome = None if late else await self._outcomes.recall(ordered.scope, ordered.number)
        if ordered.passed_over is not None:
            outcome = RecordedOutcome(failed=ordered.passed_over, attempts=1)
        work = replace(
            await self._committer.work(ordered, events, record),
            recorded=None if outcome is None else outcome.recorded,
            late_after=ledger.applied if late else None,
        )
        hopeless = self._standing.waited_in_vain(work.key)
        result = await self._decider.decide(work, lease, outcome or RecordedOutcome(), hopeless=hopeless)
        if isinstance(result, Park):
            self._standing.park(ordered, record)
            # nothing is committed, so no fence tells that the ledger at hand is an old one, or its outbox unsent
            anew = await self._committer.flushed_anew(ordered.scope)
            return Progress.APPLIED if anew.applied > ledger.applied else Progress.PARKED
        if isinstance(result, Hold):
            self._standing.wait_in_vain(work.key)
            await self._hold_because(result.reason, ordered, record)
            return Progress.HELD
        here = current()
        lates = ledger.lates + 1 if late else None
        stamp = DecisionStamp(ordered.number, result.attempts, lates, work.replayed, here.traceparent, self._log_epoch)
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
                server=ledger.server,
                key=ledger.key,
            ),
        )
        self._standing.go_on(ordered.scope.key)
        self._observer.committed(ordered, record, work, (result.decision, result.by), here)
        return Progress.APPLIED

    async def hold_lost(self, caught_up: Collection[tuple[str, int]]) -> None:
        """Hold conversations that wait for an event that was sent and never came; call it every few seconds.

        ``caught_up``: the partitions that were read to their ends since the last call. A loss must be seen by two calls
        in a row: the event may have been sent between them. Raises `Unavailable`.
        """
        suspects = {}
        for ordered, record in self._standing.parked_for(LOST_AFTER_S):
            ledger = await self._committer.flushed_anew(ordered.scope)
            parked = await self._parked(ordered.scope, ledger.applied + 1)
            lost = await self._decider.lost(ordered.scope.key, _in_order(parked)) if parked else None
            if lost is None:
                continue
            suspects[ordered.scope.key] = ledger.applied
            is_read = (str(record.topic), record.partition) in caught_up
            if is_read and self._suspects.get(ordered.scope.key) == ledger.applied:
                await self._hold_because(lost, ordered, record)
        self._suspects = suspects

    async def _hold(self, ordered: OrderedEvent, ledger: Ledger, record: Record) -> None:
        unit = self._spec.order.value
        error = (
            f"{unit} {ordered.number} came, but {self._spec.name} has applied only {ledger.applied}:"
            " the state store lost acknowledged writes; the conversation is held until it is repaired"
        )
        await self._hold_because(error, ordered, record)

    async def _hold_because(self, error: str, ordered: OrderedEvent, record: Record) -> None:
        if self._continuity is not None:
            await self._continuity.confirm(ordered.scope)
        log.error("HELD %s: %s", ordered.scope.key, error)
        self._standing.hold(ordered.scope.key)
        await self._dead_letter(record, Rejection(reason=DeadLetterReason.HELD, error=error))

    async def _dead_letter(self, record: Record, rejection: Rejection) -> None:
        where = f"{record.topic}/{record.partition}@{record.offset}"
        log.warning("%s: dead letter of %s: %s: %s", self._spec.name, where, rejection.reason, rejection.error)
        letter = dead_letter(record, self._spec.name, rejection.reason, rejection.error)
        answers = error_answers(record, rejection.error) if await self._answers(record) else ()
        await self._sender.publisher.publish([letter, *answers])

    async def _answers(self, record: Record) -> bool:
        """Whether whoever asked by a record that cannot be read is answered here, and may still be waiting."""
        if not self._spec.reads_log or is_copy(record):
            return False
        age_s = self._now().timestamp() - record.timestamp_ms / 1000
        if age_s > self._settings.request_age_s:
            return False
        number = record_position(record, self._place.epoch)
        return self._place.answers(await self._sender.log_positions.answering(record.partition, number))


def _check_lease(lease: Lease, done: int) -> None:
    """Raise `Revoked` where a rebalance has begun and some records are done: the others are for the next owner."""
    if done and lease.revoked:
        raise Revoked("a rebalance or a shutdown has begun")


def _slot(event: Contract) -> str:
    return event.slot if isinstance(event, SessionEvent) else event.type_tag()


def _in_order(gathered: Mapping[str, Contract]) -> list[Contract]:
    return [event for _, event in sorted(gathered.items())]
