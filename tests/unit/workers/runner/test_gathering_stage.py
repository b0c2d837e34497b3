"""The runner of a stage that gathers: parks what comes early, applies in order, notices what others applied."""

from dataclasses import replace
from unittest.mock import ANY

from eunoe.schemas.decisions import (
    Commit,
    Decision,
    Ledger,
    Outbox,
    Outcome,
    OutMessage,
    Park,
    Scope,
    Work,
)
from eunoe.schemas.events import SessionClosed, SessionSegmented
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.codec import encode
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import skip_session
from eunoe.workers.stores.state.cached_state import CachedStateStore, state_cache
from tests.support.in_memory import START
from tests.support.runner_bench import QUICK, Bench, Lease, Script, closed


class Together:
    """Decides a session when the events of all its expected kinds are there."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, list[str]]] = []

    async def decide(self, work: Work) -> Outcome:
        kinds = [event.type_tag() for event in work.events]
        if len(kinds) < 2:
            return Park("one half is missing")
        self.applied.append((work.number, kinds))
        return Decision()


GATHERING = replace(
    STAGES["segment"],
    name="gather",
    consumes=(SessionClosed, SessionSegmented),
    on_failure=skip_session("gather"),
    gathers=True,
)


def segmented(session: int) -> SessionSegmented:
    whole = closed(session)
    return SessionSegmented.model_validate(
        {
            "conversation_id": "c",
            "session": session,
            "lines": whole.lines,
            "known_from": START,
            "spans": [{"first": 0, "last": 0}],
            "made_by": {"code": "x", "model": "y"},
        }
    )


async def test_a_gathering_stage_parks_what_comes_early_and_applies_in_order():
    stage = Together()
    bench = Bench(stage, GATHERING)
    halves = Bench(stage, GATHERING, Topic.SEGMENTS)
    halves.runner, halves.log, halves.stores = bench.runner, bench.log, bench.stores
    await bench.handle(closed(2), closed(1))
    assert await bench.applied() == 0
    await halves.handle(segmented(2))
    assert stage.applied == []
    await halves.handle(segmented(1))
    kinds = ["session_closed", "session_segmented"]
    assert stage.applied == [(1, kinds), (2, kinds)]
    assert await bench.stores.state.parked_numbers(bench.scope) == []


async def test_what_would_be_parked_beyond_the_bound_holds_the_conversation():
    bench = Bench(Together(), GATHERING)
    await bench.handle(closed(4))
    assert bench.letters() == [DeadLetterReason.HELD]


async def test_what_another_process_applies_between_two_reads_is_not_missing():
    """The row gathers in order: session 1 is parked, and applied by another process while session 2 is looked at."""
    in_order = replace(GATHERING, consumes=(SessionClosed,), in_order=(SessionClosed,))
    bench = Bench(Script(Park("not yet"), Park("not yet"), Decision()), in_order)
    await bench.handle(closed(1))
    parked, state = bench.stores.state.parked, bench.stores.state

    async def overtaken(scope: Scope, number: int) -> dict[str, str]:
        state.parked = parked
        assert await state.commit(bench.scope, Commit(expect=0, applied=1, unpark=1))
        return await parked(scope, number)

    state.parked = overtaken
    await bench.handle(closed(2))
    assert bench.letters() == []
    assert await bench.applied() == 2


async def test_what_another_process_applied_meanwhile_is_not_missing_beside_a_ledger_at_hand():
    bench = Bench(Script(Decision()))
    cached = CachedStateStore(bench.stores.state, "segment", state_cache())
    sender = Sender(cached, bench.stores.index, bench.stores.log_positions, bench.log)
    around = RunnerContext(settings=QUICK)
    again = Runner(STAGES["segment"], Script(Decision()), sender, bench.stores.state, LogPlace(0, 1), around)
    await again.handle(bench.record(closed(1)), Lease())
    await bench.handle(closed(2))
    await again.handle(bench.record(closed(3)), Lease())
    assert bench.letters() == []
    assert await bench.applied() == 3


async def test_what_a_fenced_process_has_committed_and_not_sent_is_sent_by_who_finds_nothing_parked():
    in_order = replace(GATHERING, consumes=(SessionClosed,), in_order=(SessionClosed,))
    bench = Bench(Script(Decision()), in_order)
    cached = CachedStateStore(bench.stores.state, "gather", state_cache())
    sender = Sender(cached, bench.stores.index, bench.stores.log_positions, bench.log)
    around = RunnerContext(settings=QUICK)
    runner = Runner(in_order, Script(Decision()), sender, bench.stores.state, LogPlace(0, 1), around)
    parked, state = bench.stores.state.parked, bench.stores.state
    unsent = OutMessage(topic=Topic.SEGMENTS, key="default/c", text=encode(segmented(2)).decode())

    async def overtaken(scope: Scope, number: int) -> dict[str, str]:
        if number == 2:
            state.parked = parked
            outbox = Outbox(number=2, messages=(unsent,))
            assert await state.commit(bench.scope, Commit(expect=1, applied=2, outbox=outbox))
        return await parked(scope, number)

    state.parked = overtaken
    await runner.handle(bench.record(closed(1)), Lease())
    assert [event.session for event in bench.out() if isinstance(event, SessionSegmented)] == [2]
    assert await state.ledger(bench.scope) == Ledger(applied=2, server=state.server, token=ANY)
