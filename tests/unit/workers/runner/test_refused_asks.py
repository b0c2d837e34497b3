"""Asks that are dead-lettered: whoever asked gets the error."""

from datetime import timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import Ask, Strategy, Utterance, Wants
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.codec import decode, encode
from eunoe.streams.record import Message, Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.refused_asks import error_answers
from tests.support.in_memory import START, ended, make_pipeline, produce_raw, utterance

KEY = b"default/c"
BRIEF = StageSettings(intake=IntakeSettings(max_text_bytes=40))


def asking(number: int, text: str = "", request: str = "r", **more: object) -> Utterance:
    return utterance(number, text, ask=Ask(request_id=request, **more))


def errors(pipeline: InMemoryPipeline) -> dict[str, str | None]:
    """Request id → the error of its only reply."""
    replies = pipeline.replies()
    assert len({reply.request_id for reply in replies}) == len(replies)
    return {reply.request_id: reply.error for reply in replies}


async def test_an_ask_whose_text_is_too_long_gets_the_error():
    pipeline = make_pipeline(BRIEF)
    await pipeline.produce(asking(1, "long" * 20, strategy=Strategy.TREE, speak_as="bot"), utterance(2), ended())
    (reply,) = pipeline.replies()
    assert reply.error == "text of 80 bytes; at most 40 are taken"
    assert (reply.request_id, reply.speaker, reply.strategy, reply.text) == ("r", "bot", Strategy.TREE, "")
    assert pipeline.dead_letters() == 1


async def test_an_ask_with_an_utterance_id_of_another_content_gets_the_error_and_the_first_its_answer():
    pipeline = make_pipeline()
    await pipeline.produce(asking(1, "Hello?", "first"), asking(1, "Another text", "second"))
    found = errors(pipeline)
    assert found["first"] is None
    assert found["second"] == "utterance id 'u1' was used before with another content"


async def test_an_ask_for_memory_gets_recalled_nothing_with_the_error():
    pipeline = make_pipeline(BRIEF)
    await pipeline.produce(asking(1, "long" * 20, wants=Wants.MEMORY, record=False))
    (answer,) = pipeline.events(Topic.REPLIES)
    assert isinstance(answer, Recalled)
    assert (answer.request_id, answer.text) == ("r", "")
    assert answer.error == "text of 80 bytes; at most 40 are taken"


BODY = orjson.loads(encode(asking(1)))
BROKEN = {
    "a field too many": {**BODY, "mood": "bad"},
    "blank text": {**BODY, "text": " "},
    "no time": {name: value for name, value in BODY.items() if name != "at"},
    "a time that is none": {**BODY, "at": "yesterday"},
    "a time far away": {**BODY, "at": "9000-01-01T00:00:00Z"},
    "no utterance id": {**BODY, "utterance_id": ""},
    "an unknown strategy": {**BODY, "ask": {"request_id": "r", "strategy": "best"}},
    "a negative budget": {**BODY, "ask": {"request_id": "r", "budget_tokens": -1}},
    "a speaker without a name": {**BODY, "ask": {"request_id": "r", "speak_as": ""}},
    "a newer schema": {**BODY, "schema_version": 99},
}


@pytest.mark.parametrize("name", BROKEN)
async def test_an_ask_that_breaks_its_schema_gets_the_error(name: str):
    pipeline = make_pipeline()
    await produce_raw(pipeline, orjson.dumps(BROKEN[name]), KEY)
    (reply,) = pipeline.replies()
    assert (reply.request_id, reply.key, reply.text) == ("r", "default/c", "")
    assert reply.error
    assert pipeline.dead_letters() == 1


async def test_an_ask_with_the_wrong_key_gets_the_error_where_it_waits():
    pipeline = make_pipeline()
    await produce_raw(pipeline, encode(asking(1)), b"default/another")
    (reply,) = pipeline.replies()
    assert reply.key == "default/c"
    assert "disagrees with the body" in (reply.error or "")


NO_ASKS = {
    "no JSON": b"{",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no utterance": orjson.dumps({**BODY, "type": "session_ended"}),
    "no ask": orjson.dumps({**BODY, "ask": None, "mood": ""}),
    "an ask that is text": orjson.dumps({**BODY, "ask": "r"}),
    "no request id": orjson.dumps({**BODY, "ask": {"speak_as": "bot"}}),
    "a request id that is too long": orjson.dumps({**BODY, "ask": {"request_id": "r" * 201}}),
    "no conversation": orjson.dumps({**BODY, "conversation_id": 1}),
}


@pytest.mark.parametrize("name", NO_ASKS)
async def test_what_holds_no_readable_ask_is_a_dead_letter_alone(name: str):
    pipeline = make_pipeline()
    await produce_raw(pipeline, NO_ASKS[name], KEY)
    assert pipeline.replies() == []
    assert pipeline.dead_letters() == 1


async def test_another_generation_answers_no_refused_ask():
    pipeline = make_pipeline(BRIEF, generation="v2")
    await pipeline.produce(asking(1, "long" * 20))
    await produce_raw(pipeline, orjson.dumps(BROKEN["blank text"]), KEY)
    assert pipeline.replies() == []
    assert pipeline.dead_letters() == 2


async def test_an_old_ask_that_cannot_be_read_is_not_answered_again():
    pipeline = make_pipeline(runner_settings=RunnerSettings(request_age_s=timedelta(days=1).total_seconds()))
    await produce_raw(pipeline, orjson.dumps(BROKEN["blank text"]), KEY)  # the log of the tests is months old
    assert pipeline.replies() == []
    assert pipeline.dead_letters() == 1


async def test_an_intake_that_fails_answers_with_the_error():
    class Broken:
        async def decide(self, work: object) -> object:
            raise ValueError("not this one")

    pipeline = make_pipeline(
        runner_settings=RunnerSettings(attempts=1), wrap=lambda name, stage: Broken() if name == "intake" else stage
    )
    await pipeline.produce(asking(1))
    (error,) = errors(pipeline).values()
    assert error is not None
    assert error.startswith("ValueError")
    assert "not this one" not in error


json_leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
json_values = st.recursive(
    json_leaves | st.sampled_from(["reply", "memory"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.sampled_from([*BODY, "tenant"]), json_values)
asks = st.dictionaries(st.sampled_from(["request_id", "speak_as", "strategy", "wants", "record"]), json_values)


@given(bodies, asks | json_values)
def test_any_body_gives_one_answer_at_most_and_raises_nothing(body: dict[str, object], ask: object):
    document = {"conversation_id": "c", **body, "type": "utterance", "ask": ask}
    record = Record(Topic.CONVERSATIONS, 0, 0, KEY, orjson.dumps(document), int(START.timestamp() * 1000))
    answers: tuple[Message, ...] = error_answers(record, "broken")
    assert len(answers) <= 1
    for answer in answers:
        event = decode(answer.value)
        assert isinstance(event, Reply | Recalled)
        assert (event.error, event.key.encode()) == ("broken", answer.key)
