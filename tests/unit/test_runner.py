"""The runner: what it does with outcomes, gaps, failures, and servers that are away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from eunoe.schemas.decisions import (
    REQUEST_AGE_S,
    REQUEST_TTL_S,
    Commit,
    Decision,
    Ledger,
    Outbox,
    Outcome,
    OutMessage,
    Park,
    Put,
    Scope,
    Wait,
    Work,
)
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import Ask, CloseReason, Line, SessionClosed, SessionSegmented, SessionSkipped, Strategy
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import record_log_time
from eunoe.streams.record import Message, Record, Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.runner.backoff import Backoff
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.inbound import LogPlace, NewerSchema
from eunoe.workers.runner.loss_detector import WritesLost
from eunoe.workers.runner.metrics import Hop, Part, StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from eunoe.workers.stage import StageSpec, skip_session
from eunoe.workers.stores.cached_state import CachedStateStore, state_cache
from tests.support.in_memory import START, Stores, ended, make_pipeline, utterance

QUICK = RunnerSettings(attempts=2, retry_limit_s=1e9, max_parked=3, backoff=Backoff(first=0.001))


class Lease:
    """Never waits; ``pauses`` pauses are allowed before the partition is taken away."""

    def __init__(self, pauses: int = 1000) -> None:
        self.left = pauses
        self.revoked = False

    async def pause(self, seconds: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise Revoked


class Script:
    """A stage that plays outcomes one after the other; the last one goes on for ever."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[Work] = []

    async def decide(self, work: Work) -> Outcome:
        self.asked.append(work)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def closed(session: int, conversation: str = "c") -> SessionClosed:
    line = Line(utterance_id=f"u{session}", speaker="Ann", text="hello", at=START)
    return SessionClosed(
        conversation_id=conversation, session=session, lines=(line,), known_from=START, reason=CloseReason.ENDED
    )


class Bench:
    """One stage on a log, its records handed over by hand."""

    def __init__(
        self,
        stage: object,
        spec: StageSpec = STAGES["segment"],
        topic: Topic = Topic.SESSIONS,
        settings: RunnerSettings = QUICK,
    ) -> None:
        self.log, self.stores, self.topic = MemoryLog(partitions=1), Stores(), topic
        sender = Sender(self.stores.state, self.stores.index, self.stores.log_positions, self.log)
        self.runner = Runner(spec, stage, sender, self.stores.state, LogPlace(0, 1), RunnerContext(settings=settings))
        self.scope = Scope(spec.name, "default/c")

    def record(self, event: SessionClosed | bytes, key: bytes | None = None) -> Record:
        if isinstance(event, bytes):
            return self.log.append(Message(self.topic, key or b"default/c", event))
        return self.log.append(Message(self.topic, key or event.key.encode(), encode(event)))

    async def handle(self, *events: SessionClosed, pauses: int = 1000) -> None:
        for event in events:
            await self.runner.handle(self.record(event), Lease(pauses))

    def letters(self) -> list[DeadLetterReason]:
        return [read_dead_letter(record)[0].reason for record in self.log.records(Topic.DEAD_LETTERS)]

    def out(self) -> list[object]:
        return [decode(record.value) for record in self.log.records(Topic.SEGMENTS)]

    async def applied(self) -> int:
        return (await self.stores.state.ledger(self.scope)).applied


async def test_what_people_waited_for_is_counted_once():
    bench, meter = Bench(stage := Script(Decision())), StageMeter()
    later = START + timedelta(seconds=7)
    sender = Sender(bench.stores.state, bench.stores.index, bench.stores.log_positions, bench.log, meter)
    place, context = LogPlace(0, 1), RunnerContext(settings=QUICK, now=lambda: later)
    bench.runner = Runner(STAGES["segment"], stage, sender, bench.stores.state, place, context)
    await bench.handle(closed(1), closed(1))
    assert meter.freshness.sum_s == 7
    assert meter.freshness.cumulative()[-1] == ("+Inf", 1)
    assert meter.asks[Hop.WHOLE].sum_s == 0
    assert meter.parts[Part.DECIDING].cumulative()[-1] == ("+Inf", 1)


async def test_a_session_is_decided_once_however_often_it_comes():
    stage = Script(Decision(writes=(Put(table="t", id="a", text="1"),)))
    bench = Bench(stage)
    await bench.handle(closed(1), closed(1), closed(2), closed(1))
    assert [work.number for work in stage.asked] == [1, 2]
    assert await bench.applied() == 2


async def test_a_gap_holds_the_conversation_loudly_and_lets_the_partition_go_on(caplog: pytest.LogCaptureFixture):
    bench = Bench(Script(Decision()))
    await bench.handle(closed(1), closed(3), closed(4))
    assert await bench.applied() == 1
    assert bench.letters() == [DeadLetterReason.HELD, DeadLetterReason.HELD]
    assert "HELD default/c" in caplog.text


async def test_a_failing_session_becomes_a_dead_letter_and_is_passed_on_as_skipped():
    stage = Script(ValueError("first"), ValueError("second"), Decision())
    bench = Bench(stage)
    await bench.handle(closed(1), closed(2))
    (skipped,) = bench.out()
    assert isinstance(skipped, SessionSkipped)
    assert (skipped.session, skipped.stage) == (1, "segment")
    assert skipped.error.startswith("ValueError at test_runner.py:")
    letter, raw = read_dead_letter(bench.log.records(Topic.DEAD_LETTERS)[0])
    assert (letter.reason, letter.attempts, decode(raw)) == (DeadLetterReason.FAILED, 2, closed(1))
    ledger = await bench.stores.state.ledger(bench.scope)
    assert (ledger.applied, ledger.skipped) == (2, frozenset({1}))


async def test_a_skipped_session_is_passed_over_without_asking_the_stage():
    stage = Script(Decision())
    bench = Bench(stage)
    skipped = SessionSkipped(conversation_id="c", session=1, stage="before", error="x", turns=(4,))
    await bench.runner.handle(bench.record(encode(skipped)), Lease())
    await bench.handle(closed(2))
    assert [work.number for work in stage.asked] == [2]
    assert bench.out() == [skipped]


async def test_waiting_asks_again_and_gives_way_to_a_rebalance():
    stage = Script(Wait("not yet"), Wait("not yet"), Decision())
    bench = Bench(stage)
    await bench.handle(closed(1), pauses=2)
    assert len(stage.asked) == 3
    with pytest.raises(Revoked):
        await Bench(Script(Wait("never"))).handle(closed(1), pauses=5)


async def test_state_that_never_comes_holds_the_conversation_until_the_true_event():
    never = Wait("update has applied 0, not yet 1", holds=True)
    stage = Script(never, never, never, never, Decision())
    bench = Bench(stage, settings=replace(QUICK, retry_limit_s=0.1))
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters(), len(stage.asked)) == (0, [DeadLetterReason.HELD], 3)
    await bench.handle(closed(1))  # not waited for again
    assert (await bench.applied(), bench.letters(), len(stage.asked)) == (0, [DeadLetterReason.HELD] * 2, 4)
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [DeadLetterReason.HELD] * 2)


async def test_a_conversation_held_for_a_gap_is_still_waited_for_when_it_is_read_again():
    not_yet = Wait("update has applied 0, not yet 1", holds=True)
    stage = Script(not_yet, not_yet, Decision())
    bench = Bench(stage, settings=replace(QUICK, retry_limit_s=10))
    await bench.handle(closed(2), closed(1), closed(2))
    assert (await bench.applied(), bench.letters()) == (2, [DeadLetterReason.HELD])


async def test_a_server_that_is_away_is_waited_for_and_never_makes_a_dead_letter():
    stage = Script(Unavailable("away"), Unavailable("away"), Unavailable("away"), Decision())
    bench = Bench(stage)
    await bench.handle(closed(1))
    assert (await bench.applied(), bench.letters()) == (1, [])


async def test_an_internal_event_of_a_newer_version_waits_for_the_deploy():
    bench = Bench(Script(Decision()))
    newer = encode(closed(1)).replace(b'"schema_version":1', b'"schema_version":%d' % (SessionClosed.LATEST + 1))
    with pytest.raises(Revoked):
        await bench.runner.handle(bench.record(newer), Lease(pauses=4))
    assert bench.letters() == []
    assert issubclass(NewerSchema, Unavailable)


async def test_a_version_that_no_deploy_brings_is_a_dead_letter_in_the_end():
    bench = Bench(Script(Decision()), settings=replace(QUICK, retry_limit_s=0.0))
    newer = encode(closed(1)).replace(b'"schema_version":1', b'"schema_version":99')
    await bench.runner.handle(bench.record(newer), Lease())
    assert bench.letters() == [DeadLetterReason.NEWER_VERSION]


async def test_a_commit_that_another_process_overtook_is_fenced():
    bench = Bench(Script(Decision()))

    class Overtaken:
        async def decide(self, work: Work) -> Outcome:
            await bench.handle(closed(1))
            return Decision()

    slow = Runner(
        STAGES["segment"],
        Overtaken(),
        Sender(bench.stores.state, bench.stores.index, bench.stores.log_positions, bench.log),
        bench.stores.state,
        LogPlace(0, 1),
        RunnerContext(settings=QUICK),
    )
    with pytest.raises(Fenced):
        await slow.handle(bench.record(closed(1)), Lease())


async def test_a_commit_on_a_decision_that_the_store_lost_and_another_process_made_again_is_refused():
    bench = Bench(Script(Decision()))
    first = bench.record(closed(1))
    await bench.runner.handle(first, Lease())

    class Beside:
        """Decides the second session while the store goes back, and the first one is decided again."""

        async def decide(self, work: Work) -> Outcome:
            del bench.stores.state._ledgers[bench.scope]
            await bench.runner.handle(first, Lease())
            return Decision(writes=(Put(table="t", id="a", text="of the lost decision"),))

    sender = Sender(bench.stores.state, bench.stores.index, bench.stores.log_positions, bench.log)
    context = RunnerContext(settings=QUICK)
    slow = Runner(STAGES["segment"], Beside(), sender, bench.stores.state, LogPlace(0, 1), context)
    with pytest.raises(WritesLost):
        await slow.handle(bench.record(closed(2)), Lease())
    assert await bench.applied() == 1
    assert await bench.stores.state.scan("segment", "default/c", "t") == {}


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


async def test_an_ask_that_fails_is_answered_with_its_error():
    class Broken:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        async def decide(self, work: Work) -> Outcome:
            raise RuntimeError("no words")

    pipeline = make_pipeline(
        runner_settings=QUICK, wrap=lambda name, stage: Broken(stage) if name == "respond" else stage
    )
    await pipeline.produce(utterance(1), ended(), utterance(2, ask=Ask(request_id="r")))
    (reply,) = pipeline.replies()
    assert isinstance(reply, Reply)
    assert (reply.text, reply.strategy) == ("", Strategy.FUSED)
    assert (reply.error or "").startswith("RuntimeError at test_runner.py:")


async def test_a_failed_ask_names_the_strategy_it_was_given():
    class Speechless:
        async def reply(self, task: object) -> object:
            raise RuntimeError("no words")

    def without_words(name: str, stage: Any) -> object:
        if name == "respond":
            stage._replier = Speechless()
        return stage

    settings = StageSettings().with_changes(RespondSettings, strategy=Strategy.CURRENT)
    pipeline = make_pipeline(settings, runner_settings=QUICK, wrap=without_words)
    asks = [Ask(request_id="set"), Ask(request_id="own", strategy=Strategy.TREE)]
    await pipeline.produce(utterance(1), ended(), *(utterance(n, ask=ask) for n, ask in enumerate(asks, 2)))
    failed = {reply.request_id: reply for reply in pipeline.replies()}
    assert all((reply.error or "").startswith("RuntimeError at test_runner.py:") for reply in failed.values())
    assert {id_: reply.strategy for id_, reply in failed.items()} == {"set": Strategy.CURRENT, "own": Strategy.TREE}


def test_clocks_that_differ_by_a_day_drop_no_new_request_and_answer_no_old_one_again() -> None:
    day = timedelta(days=1).total_seconds()
    assert 2 * day <= REQUEST_AGE_S
    assert REQUEST_AGE_S + day <= REQUEST_TTL_S


async def test_asks_older_than_their_ledgers_are_dropped_and_counted(caplog: pytest.LogCaptureFixture):
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1), ended(), utterance(2, ask=Ask(request_id="r")))
    (context,) = pipeline.log.records(Topic.REPLY_CONTEXTS)
    settings = replace(QUICK, request_age_s=REQUEST_AGE_S)
    meter, answered = StageMeter(), len(pipeline.replies())

    async def read_again(later: timedelta) -> None:
        """Without the ledger, as after its time to live."""
        stores = Stores()
        sender = Sender(stores.state, stores.index, stores.log_positions, pipeline.log, meter)
        stage = STAGES["respond"].build(pipeline.dependencies)
        place, now = LogPlace(0, 4), record_log_time(context) + later
        around = RunnerContext(settings=settings, now=lambda: now)
        runner = Runner(STAGES["respond"], stage, sender, stores.state, place, around)
        await runner.handle(context, Lease())

    await read_again(timedelta(seconds=REQUEST_AGE_S))
    assert (len(pipeline.replies()), meter.expired) == (answered + 1, 0)
    await read_again(timedelta(seconds=REQUEST_AGE_S + 1))
    assert (len(pipeline.replies()), meter.expired) == (answered + 1, 1)
    assert "1 requests dropped so far, each over 172800 s old, the last one reply-contexts/" in caplog.text
    assert pipeline.dead_letters() == 0
