"""Records of one conversation that wait together, decided one after the other and committed as one."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eunoe.schemas.decisions import Clear, Commit, Decision, Drop, Ledger, Outbox, Put, Write
from eunoe.streams.record import Record
from eunoe.workers.runner.committer import Committer
from eunoe.workers.runner.decider import Decider
from eunoe.workers.runner.inbound import OrderedEvent
from eunoe.workers.runner.outbox import DecisionStamp, compose_outbox, excess_in
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stage import ApplyOrder, StageSpec

MAX_BATCH = 16
"""Records of one run."""
MAX_BATCH_BYTES = 1 << 18
"""Bytes of their values: what a run brings about travels in one outbox."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record and the event that it is."""

    record: Record
    ordered: OrderedEvent


def split_batch(
    records: Sequence[Record], spec: StageSpec, read: Callable[[Record], object]
) -> list[tuple[Arrived, ...]]:
    """Runs to commit at once, in order; ``read`` as `read_record` does. A record that stands alone gives an empty run.

    Somebody waits for the answer to an ask: it ends its run, so that what follows does not hold it up.
    """
    if spec.order is not ApplyOrder.POSITION:
        return [() for _ in records]
    runs: list[tuple[Arrived, ...]] = []
    going: list[Arrived] = []
    for record in records:
        ordered = read(record)
        arrived = Arrived(record, ordered) if isinstance(ordered, OrderedEvent) and not ordered.late else None
        if going and (arrived is None or not _goes_with(arrived, going)):
            runs.append(tuple(going))
            going = []
        if arrived is None:
            runs.append(())
            continue
        going.append(arrived)
        if arrived.ordered.asks:
            runs.append(tuple(going))
            going = []
    return [*runs, tuple(going)] if going else runs


def _goes_with(arrived: Arrived, going: Sequence[Arrived]) -> bool:
    size = sum(len(other.record.value) for other in going) + len(arrived.record.value)
    first = going[0].record
    is_near = (first.topic, first.partition) == (arrived.record.topic, arrived.record.partition)
    return is_near and size <= MAX_BATCH_BYTES and len(going) < MAX_BATCH


def fold_writes(decisions: Iterable[Decision]) -> tuple[Write, ...]:
    """Writes that leave the tables as those of all decisions do, one after the other."""
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
    """What all of them owe, in their order, under the number of the last; of timers the last one counts."""
    return Outbox(
        number=outboxes[-1].number,
        partition=outboxes[-1].partition,
        points=tuple(point for outbox in outboxes for point in outbox.points),
        messages=tuple(message for outbox in outboxes for message in outbox.messages),
        timer=next((outbox.timer for outbox in reversed(outboxes) if outbox.timer is not None), None),
    )


class BatchApplier:
    """Decides and commits runs of one stage."""

    def __init__(self, spec: StageSpec, decider: Decider, committer: Committer, outcomes: RecordedOutcomes) -> None:
        self._spec = spec
        self._decider = decider
        self._committer = committer
        self._outcomes = outcomes

    async def apply(self, run: Sequence[Arrived]) -> bool:
        """True: all of it is done, in one commit. False: nothing is, and each must be done for itself.

        Raises `Fenced` when another process has committed, `Unavailable` when a server is away.
        """
        scope = run[0].ordered.scope
        ledger = await self._committer.flushed(scope)
        news = [arrived for arrived in run if arrived.ordered.number > ledger.applied]
        if news:
            decisions = await self._decide(news)
            commit = None if decisions is None else self._commit(ledger, news, decisions)
            if commit is None or (commit.outbox is not None and excess_in(commit.outbox)):
                return False
            await self._committer.commit(scope, commit)
        meter = self._committer.sender.meter
        meter.events += len(run)
        meter.ignored += len(run) - len(news)
        return True

    async def _decide(self, news: Sequence[Arrived]) -> Sequence[Decision] | None:
        numbers = [(arrived.ordered.scope, arrived.ordered.number) for arrived in news]
        outcomes = await asyncio.gather(*(self._outcomes.recall(*number) for number in numbers))
        if any(outcome is not None for outcome in outcomes):
            return None
        asked = [(arrived.ordered, (arrived.ordered.event,), arrived.record) for arrived in news]
        return await self._decider.decide_batch([await self._committer.work(*words) for words in asked])

    def _commit(self, ledger: Ledger, news: Sequence[Arrived], decisions: Sequence[Decision]) -> Commit:
        outbox = join_outboxes(
            [
                compose_outbox(self._spec, decision, arrived.record, DecisionStamp(arrived.ordered.number))
                for arrived, decision in zip(news, decisions, strict=True)
            ]
        )
        return Commit(
            expect=ledger.applied,
            applied=news[-1].ordered.number,
            lates=ledger.lates,
            writes=fold_writes(decisions),
            outbox=None if outbox.empty else outbox,
        )
