"""The query of a reply: the last utterance, those before it at less weight, and what blend looked up."""

import numpy as np
import pytest

from eunoe.schemas.events import Ask, Line, LookedUp, ReplyContext, Strategy
from eunoe.schemas.versions import read_contract
from eunoe.streams.topics import Topic
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.text.queries import LOOKED_UP_WEIGHT, MAX_CHARS, mixed_vector, texts_around, weighted_terms
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import START, ended, make_pipeline, utterance

SPEAKERS = ("Ann", "Ben")
KEY = "default/c"
BOAT, HARBOUR = "My boat is called Freya.", "I keep it in the harbour of Oslo."


def test_an_utterance_that_says_little_takes_more_from_those_before_it():
    full = dict(texts_around("Which colour has the roof of your house?", [BOAT, HARBOUR], "", SPEAKERS))
    bare = dict(texts_around("And then?", [BOAT, HARBOUR], "", SPEAKERS))
    assert bare == {HARBOUR: 1.0, BOAT: 0.5}
    assert full[HARBOUR] == 2 * full[BOAT] == 0.1


def test_only_two_utterances_count_and_only_with_terms_of_their_own():
    around = texts_around("And the harbour?", ["I sail.", BOAT, "Ann, oh well."], "", SPEAKERS)
    assert [text for text, _ in around] == [BOAT]
    assert texts_around("The boat is called Freya?", [BOAT], BOAT, SPEAKERS) == ()


def test_the_question_asked_of_memory_weighs_more_than_what_was_said_before():
    question = "What is Ann's boat called?"
    around = dict(texts_around("Do you know the name of it?", [BOAT, question], question, SPEAKERS))
    assert around[question] == LOOKED_UP_WEIGHT
    assert around[BOAT] < LOOKED_UP_WEIGHT


def test_long_texts_are_read_to_a_bound():
    ((text, _),) = texts_around("And then?", ["harbour " * MAX_CHARS], "", SPEAKERS)
    assert len(text) == MAX_CHARS


def test_own_terms_count_as_often_as_they_occur_and_others_by_weight():
    query = Query("k", "A boat is a boat.", SPEAKERS, 100, around=((HARBOUR, 0.25), (BOAT, 0.5)))
    assert query.terms == {"boat": 2, "call": 0.5, "freya": 0.5, "keep": 0.25, "harbour": 0.25, "oslo": 0.25}
    assert weighted_terms("A boat is a boat.", ()) == {"boat": 2}


def test_vectors_are_mixed_by_weight_to_a_unit_vector():
    east, north = np.asarray([1, 0], dtype=np.float32), np.asarray([0, 1], dtype=np.float32)
    assert mixed_vector([east], [1.0]) is east
    assert mixed_vector([east, north], [1.0, 0.5]) == pytest.approx([0.8944, 0.4472], abs=1e-4)


# ---- in the pipeline

SAID = [
    "My boat is called Freya.",
    "I baked rye bread yesterday.",
    "I adopted a cat called Tom.",
    "The garden needs rain.",
    "I read a long novel.",
]


@pytest.mark.parametrize("strategy", [Strategy.FUSED, Strategy.SEGMENT, Strategy.TIMELINE, Strategy.TREE])
async def test_a_question_that_only_points_back_finds_what_the_dialogue_is_about(strategy: Strategy):
    found = {}
    for before in ("Let us talk about my boat Freya.", "Let us talk about my cat Tom."):
        pipeline = make_pipeline()
        for number, text in enumerate(SAID):
            await pipeline.produce(utterance(2 * number + 1, text), ended())
        ask = Ask(request_id="r", strategy=strategy, budget_tokens=15, record=False)
        await pipeline.produce(utterance(51, before), utterance(52, "What was that again?", ask=ask))
        (reply,) = pipeline.replies()
        found[before] = reply.context
    first, second = found.values()
    assert "boat" in first
    assert "cat" not in first
    assert "cat" in second
    assert "boat" not in second


async def test_blend_hands_on_its_question_and_what_it_found():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, SAID[0]), ended())
    await pipeline.produce(utterance(3, "Is my boat old?", ask=Ask(request_id="r1")))
    (context,) = [event for event in pipeline.events(Topic.REPLY_CONTEXTS) if isinstance(event, ReplyContext)]
    assert context.looked_up is not None
    assert "boat" in context.looked_up.question
    assert len(context.looked_up.memory_ids) == 1
    assert context.schema_version == 3


@pytest.mark.parametrize("strategy", [Strategy.INSIGHT, Strategy.FUSED])
async def test_a_memory_that_blend_found_is_retrieved_though_the_question_shares_nothing_with_it(strategy: Strategy):
    settings = StageSettings(respond=RespondSettings(called_up=1, candidates=1))
    pipeline = make_pipeline(settings)
    for number, text in enumerate(SAID):
        await pipeline.produce(utterance(number, text), ended())
    memories = {memory.text: memory.memory_id for memory in await all_memories(pipeline.store, KEY)}
    (boat,) = [id_ for text, id_ in memories.items() if "boat" in text]
    source = recall_sources(pipeline.dependencies)[strategy]
    shown = [(await source.recall(Query(KEY, "cat Tom?", ("Ann",), 40, looked_up=ids))).text for ids in ((), (boat,))]
    assert ["boat" in text for text in shown] == [False, True]


def test_a_context_without_it_is_read_and_written_as_before():
    line = Line(utterance_id="q", speaker="Ann", text="Hm.", at=START)
    event = ReplyContext(conversation_id="c", session=1, request=Ask(request_id="r"), question=line)
    assert event.schema_version == 1
    assert b"looked_up" not in event.to_json()
    assert read_contract(event.model_dump(mode="json")) == event
    looked_up = LookedUp(question="What boat?", memory_ids=("m1",))
    full = event.model_copy(update={"looked_up": looked_up})
    found = read_contract({**full.model_dump(mode="json"), "schema_version": 3})
    assert isinstance(found, ReplyContext)
    assert found.looked_up == looked_up
