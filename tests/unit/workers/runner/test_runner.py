"""The runner: what it does with outcomes, gaps, failures, and servers that are away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eunoe.schemas.decisions import (
    REQUEST_AGE_S,
    REQUEST_TTL_S,
    Decision,
    Outcome,
    Put,
    Wait,
    Work,
)
from eunoe.schemas.errors import NewerVersion, StateDamaged, Unavailable
from eunoe.schemas.events import Ask, SessionClosed, SessionSkipped, Strategy
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode, encode
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.memory_log import MemoryLog
from eunoe.streams.position import record_log_time
from eunoe.streams.record import Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.runner.loss_detector import LossDetector, WritesLost
from eunoe.workers.runner.metrics import Hop, Part, StageMeter
from eunoe.workers.runner.outbox import Sender
from eunoe.workers.runner.parts import RunnerContext
from eunoe.workers.runner.runner import Runner
from tests.support.in_memory import START, Stores, ended, letter_reasons, make_pipeline, utterance
from tests.support.memory.handled_positions import MemoryHandledPositions
from tests.support.runner_bench import QUICK, Bench, Lease, Script, closed


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
    assert skipped.error.startswith("ValueError at runner_bench.py:")
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
    assert issubclass(NewerVersion, Unavailable)


async def test_an_internal_event_with_a_word_of_a_newer_version_waits_for_the_deploy():
    bench = Bench(Script(Decision()))
    newer = encode(closed(1)).replace(b'"reason":"ended"', b'"reason":"asleep"')
    assert newer != encode(closed(1))
    with pytest.raises(Revoked):
        await bench.runner.handle(bench.record(newer), Lease(pauses=4))
    assert bench.letters() == []


async def test_a_version_that_no_deploy_brings_is_a_dead_letter_in_the_end():
    bench = Bench(Script(Decision()), settings=replace(QUICK, retry_limit_s=0.0))
    newer = encode(closed(1)).replace(b'"schema_version":1', b'"schema_version":99')
    await bench.runner.handle(bench.record(newer), Lease())
    assert bench.letters() == [DeadLetterReason.NEWER_VERSION]


def overtaken(bench: Bench, detector: LossDetector | None = None) -> tuple[Runner, StageMeter]:
    """A second runner of the stage of ``bench``, which commits whenever this one decides."""

    class Overtaken:
        async def decide(self, work: Work) -> Outcome:
            await bench.handle(closed(1))
            return Decision()

    meter = StageMeter()
    sender = Sender(bench.stores.state, bench.stores.index, bench.stores.log_positions, bench.log, meter)
    context = RunnerContext(settings=QUICK, loss_detector=detector)
    return Runner(STAGES["segment"], Overtaken(), sender, bench.stores.state, LogPlace(0, 1), context), meter


async def test_a_commit_that_another_process_overtook_is_fenced():
    bench = Bench(Script(Decision()))
    slow, _ = overtaken(bench)
    with pytest.raises(Fenced):
        await slow.handle(bench.record(closed(1)), Lease())


async def test_the_owner_of_a_partition_goes_on_where_a_process_that_owned_it_before_commits_first():
    bench = Bench(Script(Decision()))
    positions = MemoryHandledPositions(bench.stores.state)
    detector = LossDetector(STAGES["segment"], positions, 1, StageMeter())
    await detector.begin("sessions", 0, {}, 0)
    owner, meter = overtaken(bench, detector)
    await owner.handle(bench.record(closed(1)), Lease())
    assert (meter.fenced, meter.ignored, meter.commits) == (1, 1, 0)
    assert await bench.applied() == 1
    later = LossDetector(STAGES["segment"], positions, 1, StageMeter())
    await later.begin("sessions", 0, {}, 0)
    assert (await later.owns(bench.scope), await detector.owns(bench.scope)) == (True, False)


async def test_an_ask_that_another_process_answered_first_ends_none_of_them():
    pipeline, stores = make_pipeline(), Stores()
    await pipeline.produce(utterance(1, ask=Ask(request_id="r")))
    (asked,) = pipeline.log.records(Topic.REPLY_CONTEXTS)

    def respond(stage: object, meter: StageMeter) -> Runner:
        sender = Sender(stores.state, stores.index, stores.log_positions, MemoryLog(partitions=4), meter)
        context = RunnerContext(settings=QUICK, now=lambda: record_log_time(asked))
        return Runner(STAGES["respond"], stage, sender, stores.state, LogPlace(0, 4), context)

    class Overtaken:
        async def decide(self, work: Work) -> Outcome:
            await respond(Script(Decision()), first).handle(asked, Lease())
            return Decision()

    first, meter = StageMeter(), StageMeter()
    await respond(Overtaken(), meter).handle(asked, Lease())
    assert (first.commits, meter.fenced, meter.ignored, meter.commits) == (1, 1, 1, 0)


async def test_a_process_whose_partition_another_one_took_is_fenced():
    bench = Bench(Script(Decision()))
    positions = MemoryHandledPositions(bench.stores.state)
    frozen, later = (LossDetector(STAGES["segment"], positions, 1, StageMeter()) for _ in range(2))
    await frozen.begin("sessions", 0, {}, 0)
    await later.begin("sessions", 0, {}, 0)
    slow, _ = overtaken(bench, frozen)
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


DAMAGED = StateDamaged("a document of default/c was changed", "Redis")


async def test_a_conversation_whose_state_is_damaged_is_held_and_the_others_go_on():
    """It can be waited for until the process ends, and its successor, and all others of the partition with them."""
    bench = Bench(Script(DAMAGED, Decision()))
    await bench.handle(closed(1), closed(1, "d"), closed(2), pauses=0)
    assert bench.letters() == [DeadLetterReason.HELD] * 2
    assert await bench.applied() == 0
    assert (await bench.stores.state.ledger(replace(bench.scope, key="default/d"))).applied == 1


async def test_what_another_process_wrote_while_it_was_read_is_not_damage():
    """Documents of before and after a commit do not belong together."""
    bench = Bench(Script(Decision()))

    class Torn:
        async def decide(self, work: Work) -> Outcome:
            await bench.handle(closed(1))
            raise DAMAGED

    meter = StageMeter()
    sender = Sender(bench.stores.state, bench.stores.index, bench.stores.log_positions, bench.log, meter)
    slow = Runner(STAGES["segment"], Torn(), sender, bench.stores.state, LogPlace(0, 1), RunnerContext(settings=QUICK))
    await slow.handle(bench.record(closed(1)), Lease())
    assert bench.letters() == []
    assert (meter.stale, meter.ignored, meter.commits) == (1, 1, 0)
    assert await bench.applied() == 1


async def test_what_went_to_the_cold_store_while_it_was_read_is_not_damage():
    """Its rows are missing for a moment; the ledger names the return."""

    class Frozen:
        async def decide(self, work: Work) -> Outcome:
            if bench.stores.state.server == "memory":
                bench.stores.state.server = "memory/thawed"
                raise DAMAGED
            return Decision()

    bench = Bench(Frozen())
    await bench.handle(closed(1))
    assert bench.letters() == []
    assert await bench.applied() == 1


async def test_an_ask_that_meets_damaged_state_is_answered_at_once():
    class Damaged:
        async def decide(self, work: Work) -> Outcome:
            raise DAMAGED

    pipeline = make_pipeline(runner_settings=QUICK, wrap=lambda name, stage: Damaged() if name == "respond" else stage)
    await pipeline.produce(utterance(1), ended(), utterance(2, ask=Ask(request_id="r")))
    (reply,) = pipeline.replies()
    assert (reply.text, reply.error) == ("", str(DAMAGED))
    assert letter_reasons(pipeline.log) == [DeadLetterReason.HELD]


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
    assert "requests dropped so far: 1, each over 172800 s old, the last one reply-contexts/" in caplog.text
    assert pipeline.dead_letters() == 0
