"""Batches: waiting records of one conversation, decided one after the other and committed as one."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from eunoe.schemas.decisions import Clear, Commit, Decision, Drop, Ledger, Outbox, Put, Work, Write
from eunoe.schemas.events import SessionSkipped
from eunoe.streams.record import Record
from eunoe.streams.tracing import TraceSpan, processing
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.decider import Decider, DecisionResult
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.observer import Observer
from eunoe.workers.runner.outbox import DecisionStamp, compose_outbox, excess_in
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes, outcome_message
from eunoe.workers.stage import ApplyOrder, Batching, StageSpec

MAX_BATCH = 16
"""Records of one batch."""
MAX_SESSIONS = 4
"""Sessions of one batch: what is decided and not committed is lost with its process, and asked of models again."""
MAX_BATCH_BYTES = 1 << 18
"""Bytes of their values: all that a batch brings about is sent in one outbox."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record with its event."""

    record: Record
    ordered: OrderedEvent


def split_batch(
    records: Sequence[Record], spec: StageSpec, read: Callable[[Record], object]
) -> list[tuple[Arrived, ...]]:
    """Batches to commit at once, in order; ``read`` as `read_record` does. A record on its own gives an empty batch.

    An ask ends its batch: a client waits for the answer, and what follows must not delay it.
    """
    batches: list[tuple[Arrived, ...]] = []
    open_batch: list[Arrived] = []
    for record in records:
        ordered = read(record)
        arrived = Arrived(record, ordered) if isinstance(ordered, OrderedEvent) and _is_plain(ordered) else None
        if open_batch and (arrived is None or not _fits(arrived, open_batch, spec)):
            batches.append(tuple(open_batch))
            open_batch = []
        if arrived is None:
            batches.append(())
            continue
        open_batch.append(arrived)
        if arrived.ordered.asks:
            batches.append(tuple(open_batch))
            open_batch = []
    return [*batches, tuple(open_batch)] if open_batch else batches


def _is_plain(ordered: OrderedEvent) -> bool:
    """Whether an event is decided by the stage, in its turn."""
    is_skipped = isinstance(ordered.event, SessionSkipped)
    return not ordered.late and ordered.passed_over is None and not is_skipped


def _fits(arrived: Arrived, open_batch: Sequence[Arrived], spec: StageSpec) -> bool:
    size = sum(len(other.record.value) for other in open_batch) + len(arrived.record.value)
    first, before = open_batch[0].record, open_batch[-1].ordered.number
    is_near = (first.topic, first.partition) == (arrived.record.topic, arrived.record.partition)
    follows = not spec.order.is_gapless or arrived.ordered.number == before + 1
    return is_near and follows and size <= MAX_BATCH_BYTES and len(open_batch) < batch_limit(spec)


def batch_limit(spec: StageSpec) -> int:
    """The most records of one key that a stage is given at once."""
    if spec.order is ApplyOrder.POSITION:
        return MAX_BATCH
    return 1 if spec.batching is Batching.ALONE else MAX_SESSIONS


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


_Decided = tuple[Arrived, Work[Any], DecisionResult]


class BatchApplier:
    """Decides and commits the batches of one stage."""

    def __init__(
        self,
        spec: StageSpec,
        decider: Decider,
        committer: Committer,
        outcomes: RecordedOutcomes,
        observer: Observer,
        log_epoch: int | None = None,
    ) -> None:
        """``log_epoch``: as `DecisionStamp.log_epoch`."""
        self._spec = spec
        self._decider = decider
        self._committer = committer
        self._outcomes = outcomes
        self._observer = observer
        self._log_epoch = log_epoch

    async def apply(self, batch: Sequence[Arrived]) -> int:
        """Apply in one commit what can be; returns how many of the first ones are done. The others: each on its own.

        Raises `Fenced` when another process has committed, `Unavailable` when a server is away.
        """
        with ExitStack() as traced:
            # a span for each record, in its own trace; what is done for all of them stands in that of the last one
            spans = {
                arrived.record.offset: traced.enter_context(processing(arrived.record, self._spec.name))
                for arrived in batch
            }
            return await self._apply(batch, spans)

    async def _apply(self, batch: Sequence[Arrived], spans: Mapping[int, TraceSpan]) -> int:
        scope = batch[0].ordered.scope
        ledger = await self._committer.flushed(scope)
        news = [arrived for arrived in batch if arrived.ordered.number > ledger.applied]
        decided = await self._decided(news, ledger)
        if decided:
            commit = self._commit(ledger, decided, spans)
            if commit.outbox is not None and excess_in(commit.outbox):
                decided = []
            else:
                await self._committer.commit(scope, commit)
        for arrived, work, result in decided:
            span = spans[arrived.record.offset]
            self._observer.committed(arrived.ordered, arrived.record, work, (result.decision, result.by), span)
        meter, ignored = self._committer.sender.meter, len(batch) - len(news)
        meter.events += ignored + len(decided)
        meter.ignored += ignored
        return ignored + len(decided)

    async def _decided(self, news: Sequence[Arrived], ledger: Ledger) -> "list[_Decided]":
        """The first events with their decisions, up to one that is skipped: a commit can say that of the last one."""
        is_gap = self._spec.order.is_gapless and news and news[0].ordered.number != ledger.applied + 1
        works = None if is_gap or not news else await self._works(news)
        results = [] if works is None else await self._decider.decide_batch(works)
        skipped = next((place for place, one in enumerate(results, 1) if one.decision.skipped), len(results))
        return list(zip(news, works or (), results[:skipped], strict=False))

    async def _works(self, news: Sequence[Arrived]) -> Sequence[Work[Any]] | None:
        """The inputs of the stage's decisions; `None` where the outcome of one is recorded."""
        numbers = [(arrived.ordered.scope, arrived.ordered.number) for arrived in news]
        outcomes = await asyncio.gather(*(self._outcomes.recall(*number) for number in numbers))
        if any(outcome is not None for outcome in outcomes):
            return None
        asked = [(arrived.ordered, (arrived.ordered.event,), arrived.record) for arrived in news]
        return [await self._committer.work(*request) for request in asked]

    def _commit(self, ledger: Ledger, decided: "Sequence[_Decided]", spans: Mapping[int, TraceSpan]) -> Commit:
        outboxes = []
        for arrived, work, result in decided:
            trace = spans[arrived.record.offset].traceparent
            stamp = DecisionStamp(work.number, replayed=work.replayed, traceparent=trace, log_epoch=self._log_epoch)
            outbox = compose_outbox(self._spec, result.decision, arrived.record, stamp)
            if result.outcome is not None:
                outbox = outbox.with_message(outcome_message(arrived.ordered.scope, work.number, result.outcome))
            outboxes.append(outbox)
        outbox = join_outboxes(outboxes)
        return Commit(
            expect=ledger.applied,
            applied=decided[-1][0].ordered.number,
            lates=ledger.lates,
            writes=fold_writes(result.decision for *_, result in decided),
            skip=decided[-1][-1].decision.skipped,
            outbox=None if outbox.empty else outbox,
            server=ledger.server,
            key=ledger.key,
        )
