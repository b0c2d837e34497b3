"""Waiting sessions of a conversation: what is decided and committed together is what one after the other becomes."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from eunoe.schemas.decisions import Decision, Ledger, Outcome, Put, Scope, Wait, Work
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import DeadLetterReason, SessionClosed
from eunoe.schemas.ports import StateStore
from eunoe.streams.codec import encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.batches import MAX_SESSIONS
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.metrics import StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import Batching
from eunoe.workers.stores.uncommitted import UncommittedState
from tests.support.in_memory import Clock, Stores
from tests.unit.test_runner import Lease, closed

PLACE = LogPlace(0, 1)
QUICK = RunnerSettings(attempts=2, retry_limit_s=1e9, backoff=Backoff(first=0.001))
Left = tuple[Ledger, dict[str, str], list[DeadLetterReason]]
NOTES = Scope("tree", "default/c")
"""The ledger of the counting stage below, in the place of a stage that goes session by session."""


class Counting:
    """Counts the sessions that it has decided in its own table; each decision rests on the one before."""

    def __init__(self, store: StateStore, odd: dict[int, Outcome | Exception]) -> None:
        self._store, self._odd = store, odd
        self.decided: list[int] = []

    async def decide(self, work: Work[Any]) -> Outcome:
        odd = self._odd.pop(work.number, None)
        if isinstance(odd, Exception):
            raise odd
        if odd is not None:
            return odd
        (before,) = await self._store.fetch("tree", work.key, "t", ["count"])
        rows = await self._store.scan("tree", work.key, "t")
        self.decided.append(work.number)
        return Decision(
            writes=(Put("t", "count", f"{before or ''}{work.number} "), Put("t", f"row {work.number}", str(len(rows)))),
            skipped=work.number == SKIPPED,
        )


SKIPPED = 5
"""The session that the counting stage passes on as incomplete."""


class Counter:
    """The counting stage with its runner, over a store of its own."""

    def __init__(self, batching: Batching, odd: dict[int, Outcome | Exception] | None = None) -> None:
        spec = replace(STAGES["tree"], consumes=(SessionClosed,), batching=batching)
        self.stores, self.log, self.meter = Stores(), MemoryLog(1, Clock()), StageMeter()
        uncommitted = UncommittedState(self.stores.state, "tree")
        self.stage = Counting(uncommitted, odd or {})
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log, self.meter)
        self.runner = Runner(spec, self.stage, sender, self.stores.state, PLACE, QUICK, uncommitted=uncommitted)

    async def take(self, numbers: Sequence[int]) -> None:
        records = [self.log.append(Message(Topic.SESSIONS, b"default/c", encode(closed(one)))) for one in numbers]
        await self.runner.handle_batch(records, Lease())

    async def left(self) -> Left:
        ledger = await self.stores.state.ledger(NOTES)
        letters = [read_dead_letter(record)[0].reason for record in self.log.records(Topic.DEAD_LETTERS)]
        return ledger, dict(await self.stores.state.scan("tree", "default/c", "t")), letters


async def alone(numbers: Sequence[int], odd: dict[int, Outcome | Exception]) -> Left:
    """What is left where each session is handled on its own."""
    counter = Counter(Batching.ALONE, odd)
    await counter.take(numbers)
    return await counter.left()


@pytest.mark.parametrize(
    ("numbers", "commits"),
    [
        ([1, 2, 3, 4], 1),
        ([1, 2, 3, 4, 5, 6], 3),  # session 5 is skipped, and a commit says that of its last session only
        ([1, 1, 2, 2, 3], 3),
        ([1, 2, 4], 1),  # a gap: the conversation is held
        ([4, 5, 6, 7], 0),
    ],
)
async def test_sessions_that_wait_leave_what_one_after_the_other_leaves(numbers: list[int], commits: int):
    counter = Counter(Batching.IN_TURN)
    for begin in range(0, len(numbers), MAX_SESSIONS):
        await counter.take(numbers[begin : begin + MAX_SESSIONS])
    assert await counter.left() == await alone(numbers, {})
    assert counter.meter.commits == commits


async def test_each_session_of_a_batch_sees_the_documents_of_those_before():
    counter = Counter(Batching.IN_TURN)
    await counter.take([1, 2, 3])
    assert counter.meter.commits == 1
    ledger, rows, _ = await counter.left()
    assert rows == {"count": "1 2 3 ", "row 1": "0", "row 2": "2", "row 3": "3"}
    assert (ledger.applied, ledger.outbox) == (3, None)


@pytest.mark.parametrize(
    "odd", [Wait("not yet", seconds=0.001), RuntimeError("a fault that passes"), Unavailable("x", "y")]
)
async def test_a_session_that_cannot_be_decided_with_others_is_decided_alone(odd: Outcome | Exception):
    counter = Counter(Batching.IN_TURN, {3: odd})
    await counter.take([1, 2, 3, 4])
    assert await counter.left() == await alone([1, 2, 3, 4], {})
    assert counter.stage.decided.count(4) == 1


async def test_sessions_that_do_not_matter_to_each_other_are_decided_at_once():
    running, most = 0, 0

    class Slow:
        async def decide(self, work: Work[Any]) -> Outcome:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return Decision(writes=(Put("t", str(work.number), ""),))

    counter = Counter(Batching.SIDE_BY_SIDE)
    counter.runner._decider._stage = Slow()
    await counter.take([1, 2, 3])
    assert (most, running, counter.meter.commits) == (3, 0, 1)
    assert (await counter.left())[1] == {"1": "", "2": "", "3": ""}
