"""The runner: the one commit path of all stages. It commits each decision of a stage once, in order.

The order of a commit is: decide → one transaction in the state store (state, ``applied``, outbox) →
points → messages → mark sent → acknowledge. A crash anywhere leaves either nothing or an unsent outbox, which the next
owner sends first. The transaction checks that ``applied`` (and the count of late sessions) is still what was read, and
that nothing is unsent: that fences a process that slept through a rebalance.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from eunoe.schemas.decisions import Rejection
from eunoe.schemas.errors import NewerVersion, StateLost, Unavailable
from eunoe.schemas.ports import ParkingLot
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.versions import ContractError, waiting_for_newer
from eunoe.streams.record import Lease, Record, Revoked
from eunoe.streams.sealed.log import logged
from eunoe.streams.sealed.records import open_record
from eunoe.streams.tracing import processing, span
from eunoe.workers.runner.applier import EventApplier
from eunoe.workers.runner.batches import BatchApplier, split_batch
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.dead_letter_sender import DeadLetterSender
from eunoe.workers.runner.decider import Decider
from eunoe.workers.runner.faults import describe_fault
from eunoe.workers.runner.inbound import (
    LogPlace,
    OrderedEvent,
    Promotion,
    read_record,
)
from eunoe.workers.runner.metrics import Part
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext, StageParts
from eunoe.workers.runner.skips import PassedOver, WatchfulLease
from eunoe.workers.stage import ApplyOrder, Stage, StageSpec
from eunoe.workers.stores.state.cached_state import StaleState

T = TypeVar("T")

log = logging.getLogger(__name__)

_EXPIRED_PER_LINE = 1000
"""Requests dropped for each line of the log."""


class Runner:
    """Handles the records of one stage."""

    def __init__(
        self,
        spec: StageSpec,
        stage: Stage,
        sender: Sender,
        parking: ParkingLot,
        place: LogPlace,
        context: RunnerContext | None = None,
    ) -> None:
        """A runner that sends by ``sender`` what ``stage`` decides; ``place``: of the log that it reads."""
        context = context or RunnerContext()
        self._spec = spec
        self._sender = sender
        self._meter = sender.meter
        self._place = place
        self._settings = context.settings
        self._outages = context.outages
        self._now = context.now
        self._skips = context.skips
        self._data_keys = context.data_keys
        age_s = context.settings.request_age_s
        self._dead_letters = DeadLetterSender(spec, sender, place, age_s, context.now)
        self._decider = Decider(spec, stage, context.settings, sender.meter, context.self_test)
        self._log_epoch = place.epoch if spec.reads_log and context.data_keys is not None else None
        parts = StageParts(
            spec,
            self._decider,
            Committer(sender, place, context.loss_detector, context.data_keys),
            context.outcomes,
            Observer(spec, sender.meter, context.now),
            self._log_epoch,
        )
        self._batches = BatchApplier(parts)
        self._applier = EventApplier(parts, parking, context, self._dead_letters)

    async def handle(self, record: Record, lease: Lease) -> None:
        """Handle a record completely; when this returns, the record may be acknowledged.

        An event of a newer schema is waited for as long as for a server; then it is a dead letter, because anybody who
        can produce into the topic can claim a version. So is an event that needs state which a newer version wrote.

        Raises `Revoked` when a rebalance comes first or the state store lost writes, `Fenced` when another process has
        committed, `Unavailable` when a server stays away: none of them may be acknowledged.
        """
        with processing(record, self._spec.name):
            try:
                await self._retried(lambda lease: self._handle(record, lease), lease)
            except NewerVersion as fault:
                rejection = Rejection(reason=DeadLetterReason.NEWER_VERSION, error=str(fault))
                await self._retried(lambda _: self._dead_letters.send(record, rejection), lease)
        self._meter.events += 1

    async def handle_batch(self, records: Sequence[Record], lease: Lease) -> None:
        """Handle records of one key completely, in their order; where the stage allows it, several in one commit.

        Raises as `handle`. `Revoked` between two records: those before it are delivered again, and change nothing.
        """
        batches: list[tuple[OrderedEvent, ...]] = [() for _ in records]
        if len(records) > 1 and self._decider.decides_batches:
            batches = split_batch(records, self._spec, self._read)
        left = iter(records)
        for before, batch in enumerate(batches):
            of_batch = [next(left) for _ in batch or (None,)]
            _check_lease(lease, before)
            if len(batch) > 1 and await self._retried(partial(self._apply_batch, batch), lease):
                continue
            for done, record in enumerate(of_batch):
                _check_lease(lease, done)
                await self.handle(record, lease)

    async def _apply_batch(self, batch: Sequence[OrderedEvent], _lease: Lease) -> bool:
        while not any(self._skips.reason(ordered.record) for ordered in batch):  # such a one is handled on its own
            try:
                with waiting_for_newer(batch[0].record.place):
                    return await self._batches.apply(batch)
            except StaleState:
                self._meter.stale += 1
            except (StateLost, NewerVersion):  # handled on its own
                return False
        return False

    async def _retried(self, work: Callable[[Lease], Awaitable[T]], lease: Lease) -> T:
        """Repeat ``work`` while servers are away, up to the retry limit."""
        with self._outages.retrying(lease, self._settings.backoff, self._settings.retry_limit_s) as retry:
            return await retry.repeat(work, self._waiting)

    @contextmanager
    def _waiting(self, fault: Unavailable) -> Iterator[None]:
        with self._meter.timed(Part.WAITING), span("wait for server", {"server.address": fault.server}):
            yield

    async def _handle(self, record: Record, lease: Lease) -> None:
        watchful: Lease = WatchfulLease(lease, self._skips, record)
        while True:
            try:
                with waiting_for_newer(record.place):
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
        if isinstance(opened, Rejection):
            await self._dead_letters.send(record, opened)
            return
        found = self._read(opened)
        if isinstance(found, Rejection):
            await self._dead_letters.send(opened, found)
        elif isinstance(found, Promotion):
            await self._promote(found, opened)
        elif found is not None and self._is_expired(found):
            self._drop(opened)
        elif found is not None:
            await self._apply(found, lease)

    async def _apply(self, ordered: OrderedEvent, lease: Lease) -> None:
        try:
            await (self._applier.gather if self._spec.gathers else self._applier.apply)(ordered, lease)
        except StateLost as fault:  # waiting for it would only stop the other conversations
            await self._applier.hold_because(str(fault), ordered)

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
                "%s: requests dropped so far: %d, each over %.0f s old, the last one %s/%d@%d",
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
            await self._dead_letters.send(record, Rejection(reason=DeadLetterReason.INVALID, error=error))

    async def hold_lost(self, caught_up: Collection[tuple[str, int]]) -> None:
        """As `EventApplier.hold_lost`."""
        await self._applier.hold_lost(caught_up)


def _check_lease(lease: Lease, done: int) -> None:
    """Raise `Revoked` where a rebalance has begun and some records are done: the others are for the next owner."""
    if done and lease.revoked:
        raise Revoked("a rebalance or a shutdown has begun")
