"""Batches: waiting records of one conversation, decided one after the other and committed as one."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from eunoe.schemas.decisions import Clear, Commit, Decision, Drop, Ledger, Outbox, Put, Work, Write
from eunoe.streams.record import Record
from eunoe.streams.tracing import TraceSpan, processing
from eunoe.workers.models.questions.metering import DecidedBy
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.outbox import DecisionStamp, compose_outbox, excess_in
from eunoe.workers.runner.parts import StageParts
from eunoe.workers.stage import ApplyOrder, StageSpec

MAX_BATCH = 16
"""Records of one batch."""
MAX_BATCH_BYTES = 1 << 18
"""Bytes of their values: all that a batch brings about is sent in one outbox."""


def split_batch(
    records: Sequence[Record], spec: StageSpec, read: Callable[[Record], object]
) -> list[tuple[OrderedEvent, ...]]:
    """Batches to commit at once, in order; ``read`` as `read_record` does. A record on its own gives an empty batch.

    An ask ends its batch: a client waits for the answer, and what follows must not delay it.
    """
    if spec.order is not ApplyOrder.POSITION:
        return [() for _ in records]
    batches: list[tuple[OrderedEvent, ...]] = []
    open_batch: list[OrderedEvent] = []
    for record in records:
        found = read(record)
        ordered = found if isinstance(found, OrderedEvent) and not found.late else None
        if open_batch and (ordered is None or not _fits(ordered, open_batch)):
            batches.append(tuple(open_batch))
            open_batch = []
        if ordered is None:
            batches.append(())
            continue
        open_batch.append(ordered)
        if ordered.asks:
            batches.append(tuple(open_batch))
            open_batch = []
    return [*batches, tuple(open_batch)] if open_batch else batches


def _fits(ordered: OrderedEvent, open_batch: Sequence[OrderedEvent]) -> bool:
    record, first = ordered.record, open_batch[0].record
    size = sum(len(other.record.value) for other in open_batch) + len(record.value)
    is_near = (first.topic, first.partition) == (record.topic, record.partition)
    return is_near and size <= MAX_BATCH_BYTES and len(open_batch) < MAX_BATCH


def fold_writes(decisions: Iterable[Decision]) -> tuple[Write, ...]:
    """One list of writes with the same effect as the writes of all decisions, one after the other."""
    cleared: dict[str, Clear] = {}
    left: dict[tuple[str, str], Put | Drop] = {}
    for decision in decisions:
        for clear in (write for write in decision.writes if isinstance(write, Clear)):
            cleared[clear.table] = clear
            left = {place: write for place, write in left.items() if place[0] != clear.table}
        for write in decision.writes:
            if not isinstance(write, Clear):
                left[write.table, write.id] = write
    return (*cleared.values(), *left.values())


def join_outboxes(outboxes: Sequence[Outbox]) -> Outbox:
    """The contents of all outboxes in order, under the number of the last one; of timers the last one counts."""
    return Outbox(
        number=outboxes[-1].number,
        partition=outboxes[-1].partition,
        points=tuple(point for outbox in outboxes for point in outbox.points),
        messages=tuple(message for outbox in outboxes for message in outbox.messages),
        timer=next((outbox.timer for outbox in reversed(outboxes) if outbox.timer is not None), None),
    )


class BatchApplier:
    """Decides and commits the batches of one stage."""

    def __init__(self, parts: StageParts) -> None:
        self._spec = parts.spec
        self._decider = parts.decider
        self._committer = parts.committer
        self._outcomes = parts.outcomes
        self._observer = parts.observer
        self._log_epoch = parts.log_epoch

    async def apply(self, batch: Sequence[OrderedEvent]) -> bool:
        """Apply all in one commit; returns whether it did. Where not, nothing is applied: apply each on its own.

        Raises `Fenced` when another process has committed, `Unavailable` when a server is away.
        """
        with ExitStack() as traced:
            # a span for each record, in its own trace; what is done for all of them stands in that of the last one
            spans = {
                ordered.record.offset: traced.enter_context(processing(ordered.record, self._spec.name))
                for ordered in batch
            }
            return await self._apply(batch, spans)

    async def _apply(self, batch: Sequence[OrderedEvent], spans: Mapping[int, TraceSpan]) -> bool:
        if await self._committer.applied_before_cold(batch[-1]):
            self._count(batch, ())
            return True
        scope = batch[0].scope
        ledger = await self._committer.flushed(scope)
        news = [ordered for ordered in batch if ordered.number > ledger.applied]
        if news:
            works = await self._works(news)
            decisions = None if works is None else await self._decider.decide_batch(works)
            if works is None or decisions is None:
                return False
            commit = self._commit(ledger, [*zip(news, works, decisions, strict=True)], spans)
            if commit.outbox is not None and excess_in(commit.outbox):
                return False
            await self._committer.commit(scope, commit)
            for ordered, work, decision in zip(news, works, decisions, strict=True):
                span = spans[ordered.record.offset]
                self._observer.committed(ordered, work, (decision, DecidedBy.OFFLINE), span)
        self._count(batch, news)
        return True

    def _count(self, batch: Sequence[OrderedEvent], news: Sequence[OrderedEvent]) -> None:
        meter = self._committer.sender.meter
        meter.events += len(batch)
        meter.ignored += len(batch) - len(news)

    async def _works(self, news: Sequence[OrderedEvent]) -> Sequence[Work[Any]] | None:
        """The inputs of the stage's decisions; `None` where the outcome of one is recorded."""
        outcomes = await asyncio.gather(*(self._outcomes.recall(one.scope, one.number) for one in news))
        if any(outcome is not None for outcome in outcomes):
            return None
        return [await self._committer.work(one, (one.event,)) for one in news]

    def _commit(
        self,
        ledger: Ledger,
        decided: Sequence[tuple[OrderedEvent, Work[Any], Decision]],
        spans: Mapping[int, TraceSpan],
    ) -> Commit:
        outboxes = []
        for ordered, work, decision in decided:
            trace = spans[ordered.record.offset].traceparent
            stamp = DecisionStamp(work.number, replayed=work.replayed, traceparent=trace, log_epoch=self._log_epoch)
            outboxes.append(compose_outbox(self._spec, decision, ordered.record, stamp))
        outbox = join_outboxes(outboxes)
        return Commit(
            expect=ledger.applied,
            applied=decided[-1][0].number,
            lates=ledger.lates,
            writes=fold_writes(decision for *_, decision in decided),
            outbox=None if outbox.empty else outbox,
            server=ledger.server,
            checks_server=bool(self._spec.reads),
            key=ledger.key,
            after=ledger.token,
        )
