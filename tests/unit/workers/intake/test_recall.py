"""Recalls: asks that want memory instead of a reply."""

import json

import pytest
from pydantic import ValidationError

from eunoe.schemas.decisions import Work
from eunoe.schemas.events import Ask, ReplyContext, Strategy, Wants
from eunoe.schemas.replies import Recalled, Reply
from eunoe.streams.topics import Topic
from eunoe.workers.intake.head import Head
from eunoe.workers.intake.state import HEAD, SEEN
from eunoe.workers.respond.stage import error_reply
from tests.support.in_memory import START, ended, make_pipeline, utterance

MEMORY = Ask(request_id="r1", record=False, wants=Wants.MEMORY, budget_tokens=300)


async def remembering():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "I moved to Lyon in March."), utterance(2, "Is the flat nice?"), ended())
    await pipeline.produce(utterance(3, "The flat in Lyon has a balcony."))
    return pipeline


def recalls(pipeline) -> list[Recalled]:
    return [event for event in pipeline.events(Topic.REPLIES) if isinstance(event, Recalled)]


async def test_a_recall_is_answered_with_memory_and_with_what_was_said_before_it():
    pipeline = await remembering()
    await pipeline.produce(utterance(9, "Where does Ann live?", ask=MEMORY))
    (found,) = recalls(pipeline)
    assert not pipeline.replies()
    assert "Lyon" in found.text
    assert found.tokens <= 300
    assert {id_ for row in found.rows for id_ in row.cites} <= {"u1", "u2"}
    assert {id_ for source in found.sources for id_ in source.utterance_ids} <= {"u1", "u2"}
    assert [line.utterance_id for line in found.dialogue] == ["u3"]
    assert (found.request_id, found.session, found.known_session, found.error) == ("r1", 2, 1, None)
    assert found.freshness is not None
    assert (found.freshness.session, found.freshness.closed, found.freshness.utterance_id) == (1, 1, "u3")


@pytest.mark.parametrize("wants", [None, Wants.MEMORY])
async def test_an_answer_says_up_to_which_utterance_it_knows(wants):
    """In the open session, behind all sessions, and where nothing was said."""
    ask = Ask(request_id="r1", record=False, wants=wants)
    for said, session, utterance_id in (([], 0, None), ([1, 2], 0, "u2"), ([1, 2, ended()], 1, "u2")):
        pipeline = make_pipeline()
        await pipeline.produce(*[utterance(one, "We live in Lyon.") if isinstance(one, int) else one for one in said])
        await pipeline.produce(utterance(9, "Where does Ann live?", ask=ask))
        (found,) = [event for event in pipeline.events(Topic.REPLIES) if isinstance(event, Reply | Recalled)]
        assert found.freshness is not None
        assert (found.freshness.session, found.freshness.closed) == (session, session)
        assert found.freshness.utterance_id == utterance_id
        assert (found.freshness.at is None) is (utterance_id is None)
        assert found.schema_version == 2


async def test_a_recall_asks_nobody_else_and_leaves_nothing_in_memory():
    pipeline, undisturbed = await remembering(), await remembering()
    await pipeline.produce(utterance(9, "Where does Ann live?", ask=MEMORY))
    (context,) = [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]
    assert context.schema_version == 2
    assert not pipeline.events(Topic.REPLY_REQUESTS)
    for table in (HEAD, SEEN):
        assert await pipeline.store.scan("intake", "default/c", table) == await undisturbed.store.scan(
            "intake", "default/c", table
        )
    (head,) = await pipeline.store.fetch("intake", "default/c", HEAD, [HEAD])
    assert Head.from_json(head).remembered == 3


async def test_a_recall_that_comes_twice_is_answered_once():
    pipeline = await remembering()
    for _ in range(2):
        await pipeline.produce(utterance(9, "Where does Ann live?", ask=MEMORY))
    assert len(recalls(pipeline)) == 1


async def test_a_recall_of_an_empty_memory_recalls_nothing():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(9, "Where does Ann live?", ask=MEMORY))
    (found,) = recalls(pipeline)
    assert (found.text, found.rows, found.sources, found.dialogue, found.session) == ("", (), (), (), 1)


def test_a_recall_is_never_part_of_a_session():
    with pytest.raises(ValidationError, match="set record to false"):
        Ask(request_id="r", wants=Wants.MEMORY)


def test_an_ask_for_a_reply_is_written_as_before():
    assert "wants" not in json.loads(Ask(request_id="r").to_json())


async def test_a_recall_that_fails_is_answered_with_the_error():
    pipeline = await remembering()
    await pipeline.produce(utterance(9, "Where?", ask=MEMORY))
    (context,) = [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]
    (found,) = error_reply(Work(key=context.key, events=(context,), number=1, log_time=START), "broken")
    assert isinstance(found, Recalled)
    assert (found.error, found.request_id, found.strategy, found.text) == ("broken", "r1", Strategy.FUSED, "")
    other = context.model_copy(update={"request": Ask(request_id="r2")})
    (reply,) = error_reply(Work(key=context.key, events=(other,), number=1, log_time=START), "broken")
    assert isinstance(reply, Reply)


async def test_what_was_said_time_and_again_is_one_of_the_memories_whose_timelines_are_shown():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "I adopted a parrot."))
    for number in range(3, 15, 2):
        await pipeline.produce(ended(), utterance(number, "I live in Lyon with two cats."))
    wish = MEMORY.model_copy(update={"strategy": Strategy.TIMELINE})
    await pipeline.produce(ended(), utterance(99, "Does Ann live in Lyon with her cats?", ask=wish))
    (found,) = recalls(pipeline)
    shown = {id_ for source in found.sources for id_ in source.utterance_ids}
    assert "u1" in shown
    assert {"u3", "u5"} < shown
