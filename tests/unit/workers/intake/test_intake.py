"""Intake: sessions open, close and are numbered; nothing is lost, nothing is taken twice."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Ask, CloseReason, Erase, ReplyContext, SessionClosed, SessionEnded
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.topics import Topic
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.state import ERASURES, HEAD
from eunoe.workers.registry import StageSettings
from tests.support.in_memory import START, closed, ended, letter_reasons, make_pipeline, produce_raw, utterance


def ids(session: SessionClosed) -> list[str]:
    return [line.utterance_id for line in session.lines]


async def test_an_end_closes_the_session_with_its_lines_in_log_order():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(2), utterance(1), ended())
    (session,) = closed(pipeline)
    assert (session.session, session.reason, ids(session)) == (1, CloseReason.ENDED, ["u2", "u1"])


ONE_OPEN = StageSettings(intake=IntakeSettings(max_open_sessions=1))


async def test_with_one_open_session_another_id_closes_it():
    pipeline = make_pipeline(ONE_OPEN)
    await pipeline.produce(utterance(1, session_id="a"), utterance(2, session_id="b"), ended("b"))
    first, second = closed(pipeline)
    assert (first.session_id, first.reason, ids(first)) == ("a", CloseReason.SUCCEEDED, ["u1"])
    assert (second.session, second.session_id, ids(second)) == (2, "b", ["u2"])


async def test_an_utterance_without_session_id_joins_the_open_session():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, session_id="a"), utterance(2), ended("a"))
    assert [ids(session) for session in closed(pipeline)] == [["u1", "u2"]]


async def test_an_utterance_for_a_closed_session_opens_a_continuation():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, session_id="a"), ended("a"), utterance(2, session_id="a"), ended("a"))
    first, second = closed(pipeline)
    assert (first.session, first.continues) == (1, None)
    assert (second.session, second.session_id, second.continues, ids(second)) == (2, "a", 1, ["u2"])


async def test_a_session_past_its_bound_is_closed_and_goes_on():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_utterances=2)))
    await pipeline.produce(*(utterance(number, session_id="a") for number in range(1, 6)), ended("a"))
    assert [(s.session, s.reason, s.continues, ids(s)) for s in closed(pipeline)] == [
        (1, CloseReason.BOUNDS, None, ["u1", "u2"]),
        (2, CloseReason.BOUNDS, 1, ["u3", "u4"]),
        (3, CloseReason.ENDED, 2, ["u5"]),
    ]


async def test_a_session_past_its_bytes_is_closed_and_goes_on():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_session_bytes=1024)))
    await pipeline.produce(*(utterance(number, "x" * 400) for number in range(1, 5)), ended())
    assert [ids(session) for session in closed(pipeline)] == [["u1", "u2"], ["u3", "u4"]]


async def test_the_same_utterance_again_is_ignored_and_another_content_is_a_conflict():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1), utterance(1), utterance(1, "something else"), ended())
    assert [ids(session) for session in closed(pipeline)] == [["u1"]]
    assert letter_reasons(pipeline.log) == [DeadLetterReason.CONFLICT]


async def test_remembered_ids_are_bounded():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(remembered_ids=2)))
    await pipeline.produce(utterance(1), utterance(2), utterance(3), utterance(2), utterance(1), ended())
    assert [ids(session) for session in closed(pipeline)] == [["u1", "u2", "u3", "u1"]]
    assert len(await pipeline.store.scan("intake", "default/c", "seen")) == 2


async def test_the_end_of_an_unknown_session_is_a_dead_letter_and_a_repeated_end_is_nothing():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, session_id="a"), ended("b"), ended("a"), ended("a"), ended())
    assert [session.session_id for session in closed(pipeline)] == ["a"]
    assert letter_reasons(pipeline.log) == [DeadLetterReason.UNKNOWN_SESSION]


async def test_a_text_over_the_limit_is_set_aside_and_the_rest_goes_on():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_text_bytes=10)))
    await pipeline.produce(utterance(1, "long" * 10), utterance(2, "fine"), ended())
    assert [ids(session) for session in closed(pipeline)] == [["u2"]]
    assert letter_reasons(pipeline.log) == [DeadLetterReason.TOO_LONG]


async def test_an_ask_carries_the_dialogue_before_it():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1), utterance(2, ask=Ask(request_id="r")), utterance(3))
    (context,) = pipeline.events(Topic.REPLY_CONTEXTS)
    assert isinstance(context, ReplyContext)
    assert (context.session, context.question.utterance_id) == (1, "u2")
    assert [line.utterance_id for line in context.dialogue] == ["u1"]


async def test_a_probe_is_answered_but_no_part_of_any_session():
    pipeline = make_pipeline()
    probe = Ask(request_id="r", record=False)
    await pipeline.produce(
        utterance(1), ended(), utterance(2, ask=probe), utterance(3), utterance(4, ask=probe), ended()
    )
    assert [ids(session) for session in closed(pipeline)] == [["u1"], ["u3"]]
    assert [event.session for event in pipeline.events(Topic.REPLY_CONTEXTS)] == [2, 2]  # type: ignore[attr-defined]


async def test_an_ask_that_opens_a_session_does_not_see_the_one_before():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, session_id="a"), ended("a"))
    await pipeline.produce(utterance(2, session_id="b", ask=Ask(request_id="r")))
    (context,) = pipeline.events(Topic.REPLY_CONTEXTS)
    assert isinstance(context, ReplyContext)
    assert (context.session, context.dialogue) == (2, ())


async def test_an_idle_end_is_void_when_another_utterance_came_or_the_log_says_it_is_too_early():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(idle_seconds=60)))

    def idle(after: str) -> SessionEnded:
        return SessionEnded(conversation_id="c", at=START, after_utterance_id=after)

    await pipeline.produce(utterance(1), idle("u0"), idle("u1"))
    assert closed(pipeline) == []
    clock = pipeline.log._clock
    clock.now += timedelta(seconds=60)  # type: ignore[attr-defined]
    await pipeline.produce(idle("u1"), idle("u1"))
    assert [session.reason for session in closed(pipeline)] == [CloseReason.IDLE]


async def test_timers_follow_the_last_utterance_and_end_with_the_session():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1), utterance(2))
    partition = pipeline.log.records(Topic.CONVERSATIONS)[0].partition
    far = START + timedelta(days=1)
    (due,) = await pipeline.log_positions.due(partition, far, 10)
    assert (due.key, due.timer.after_utterance_id) == ("default/c", "u2")
    await pipeline.produce(ended())
    assert await pipeline.log_positions.due(partition, far, 10) == []


async def test_an_erasure_is_recorded():
    pipeline = make_pipeline()
    await pipeline.produce(Erase(conversation_id="c", request_id="e1", at=START))
    assert list(await pipeline.store.scan("intake", "default/c", ERASURES)) == ["e1"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"not json", DeadLetterReason.NOT_JSON),
        (b'"\\ud800"', DeadLetterReason.NOT_JSON),
        (b"[1, 2]", DeadLetterReason.INVALID),
        (b'{"type": "utterance"}', DeadLetterReason.INVALID),
        (b'{"type": "nonsense"}', DeadLetterReason.UNKNOWN_TYPE),
        (b'{"type": "reply"}', DeadLetterReason.INVALID),
        (b'{"type": "utterance", "schema_version": 99}', DeadLetterReason.NEWER_VERSION),
    ],
)
async def test_bad_records_become_dead_letters_as_they_came(value: bytes, reason: DeadLetterReason):
    pipeline = make_pipeline()
    await produce_raw(pipeline, value, b"default/c")
    await pipeline.produce(utterance(1), ended())
    (record,) = pipeline.log.records(Topic.DEAD_LETTERS)
    letter, raw = read_dead_letter(record)
    assert (letter.reason, letter.stage, raw) == (reason, "intake", value)
    assert len(closed(pipeline)) == 1


async def test_keys_and_partitions_are_checked():
    pipeline = make_pipeline()
    value = utterance(1).to_json()
    await produce_raw(pipeline, value, None, partition=0)
    await produce_raw(pipeline, value, b"default/other")
    await pipeline.produce(utterance(2))
    home = pipeline.log.records(Topic.CONVERSATIONS)[-1].partition
    await produce_raw(pipeline, value, b"default/c", partition=(home + 1) % pipeline.log.partitions)
    bad_key, wrong_partition = DeadLetterReason.BAD_KEY, DeadLetterReason.WRONG_PARTITION
    assert sorted(letter_reasons(pipeline.log)) == [bad_key, bad_key, wrong_partition]


@given(st.lists(st.tuples(st.sampled_from(["say", "end", "again"]), st.sampled_from([None, "a", "b"])), max_size=25))
async def test_every_utterance_is_in_exactly_one_session_and_numbers_are_dense(steps: list[tuple[str, str | None]]):
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_utterances=4)))
    said = 0
    for what, session_id in steps:
        if what == "say":
            said += 1
            await pipeline.produce(utterance(said, session_id=session_id))
        elif what == "again" and said:
            await pipeline.produce(utterance(said, session_id=session_id))
        else:
            await pipeline.produce(ended(session_id))
    (text,) = await pipeline.store.fetch("intake", "default/c", HEAD, [HEAD])
    head = Head() if text is None else Head.from_json(text)
    await pipeline.produce(*(ended(session.session_id) for session in head.open))
    found = closed(pipeline)
    assert [session.session for session in found] == list(range(1, len(found) + 1))
    known = [id_ for session in found for id_ in ids(session)]
    assert sorted(known) == sorted(f"u{number}" for number in range(1, said + 1))
    for session in found:  # in the order of the log
        assert ids(session) == sorted(ids(session), key=lambda id_: int(id_[1:]))


async def test_a_turn_carries_the_latest_lines_of_a_long_session():
    pipeline = make_pipeline(StageSettings(intake=IntakeSettings(max_dialogue_bytes=1024, blend_unasked=True)))
    await pipeline.produce(*(utterance(n) for n in range(1, 21)), utterance(21, ask=Ask(request_id="r")), ended())
    asked = [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]
    carried = [line.utterance_id for line in asked[0].dialogue]
    assert carried == [f"u{n}" for n in range(21 - len(carried), 21)]
    assert 3 < len(carried) < 20
    assert [ids(session) for session in closed(pipeline)] == [[f"u{n}" for n in range(1, 22)]]
