"""What a model's insights must be to be believed, and the blender that needs no model."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.events import InsightKind
from eunoe.workers.blend.checks import fault_of, insights_of
from eunoe.workers.blend.offline import OfflineBlender, search_words
from eunoe.workers.blend.prompt import NAME, QUESTION, BlendContext
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.turn import BlendInput
from eunoe.workers.models.questions.answer_forms import InsightsForm, QuestionForm
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.models.questions.recording import CORRECTED
from tests.support.blend import Desk, Scripted, lines_of, said
from tests.support.graphs import memory
from tests.support.model_server.schema_answers import is_strict

LINES = ("Ann: I went to Oslo once.", "*Ben: You live in Oslo, Ann.", "Ann: I moved to Lyon last week.")
MEMORIES = (memory("1a", "Ann lives in Oslo."), memory("1b", "Ben has a boat.", speaker="Ben"))
GOOD = {"kind": "Updated", "speaker": 1, "text": "Ann lives in Lyon.", "lines": [3], "replaces": ["m1"]}


def one(**change: Any) -> str:
    return json.dumps({"insights": [{**GOOD, **change}]})


FAULTS = {
    "not JSON": "sorry",
    "unknown line": one(lines=[4]),
    "line zero": one(lines=[0]),
    "nothing cited": one(lines=[]),
    "only a reply from memory": one(lines=[2]),
    "none of the last two": one(lines=[1]),
    "a speaker who is not listed": one(speaker=3),
    "a speaker who said none of it": one(speaker=1, lines=[2]),
    "blank": one(text=" "),
    "a memory that was not offered": one(replaces=["m3"]),
    "memory zero": one(replaces=["m0"]),
    "the number of a line that it rests on": one(lines=[1, 3], replaces=[1]),
    "a line": one(replaces=["line 1"]),
    "new, yet replacing": one(kind="New"),
    "updated, yet replacing nothing": one(replaces=[]),
    "redundant, yet replacing nothing": one(kind="Redundant", replaces=[]),
    "another speaker's memory": one(replaces=["m1", "m2"]),
}


@pytest.mark.parametrize("bad", FAULTS.values(), ids=FAULTS)
async def test_a_bad_answer_is_corrected_once(bad: str):
    script = Scripted(bad, json.dumps({"insights": [GOOD]}))
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert [prompt.name for prompt in script.prompts] == [QUESTION, NAME, NAME + CORRECTED]
    assert [(insight.text, insight.replaces) for insight in proposal.insights] == [("Ann lives in Lyon.", ("1a",))]
    assert not proposal.made_by.fallback


@pytest.mark.parametrize("bad", FAULTS.values(), ids=FAULTS)
async def test_two_bad_answers_leave_it_to_the_offline_blender(bad: str):
    script = Scripted(bad)
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, context = await desk.ask(2, *LINES)
    assert len(script.prompts) == 3
    assert (proposal.made_by.fallback, proposal.made_by.prompt) == (True, NAME)
    assert [(insight.kind, insight.replaces) for insight in proposal.insights] == [(InsightKind.NEW, ())]
    assert context.insights == proposal.insights


async def test_an_insight_without_a_speaker_is_of_whoever_said_its_lines():
    script = Scripted(one(speaker="Ann"))
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert len(script.prompts) == 2
    assert [(insight.speaker, insight.text) for insight in proposal.insights] == [("Ann", "Ann lives in Lyon.")]


async def test_of_insights_that_count_from_0_none_is_believed():
    script = Scripted(json.dumps({"insights": [{**GOOD, "replaces": ["m0"]}, {**GOOD, "kind": "New", "replaces": []}]}))
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert proposal.made_by.fallback


async def test_of_a_twice_faulty_answer_the_good_insights_are_kept():
    twice = json.dumps({"insights": [GOOD, {**GOOD, "text": "Ann left Oslo."}]})
    script = Scripted(twice)
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert len(script.prompts) == 3
    assert [insight.text for insight in proposal.insights] == ["Ann lives in Lyon."]
    assert (proposal.made_by.fallback, proposal.made_by.fell_back) == (False, 0)


async def test_insights_beyond_the_maximum_are_ignored_without_asking_again():
    script = Scripted(json.dumps({"insights": [{**GOOD, "kind": "New", "replaces": []}] * 3}))
    proposal, _ = await Desk(script).ask(1, *LINES)
    assert len(proposal.insights) == 2
    assert [prompt.name for prompt in script.prompts] == [NAME]


async def test_a_blank_question_is_corrected_and_then_made_of_the_words_that_were_said():
    script = Scripted('{"insights": []}', question=" ")
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert [prompt.name for prompt in script.prompts] == [QUESTION, QUESTION + CORRECTED, NAME]
    assert not proposal.made_by.fallback


def test_the_forms_suit_structured_outputs():
    assert is_strict(strict_schema(InsightsForm))
    assert is_strict(strict_schema(QuestionForm))


insights = st.builds(
    dict,
    kind=st.sampled_from(["New", "Redundant", "Updated"]),
    speaker=st.integers(0, 3),
    text=st.sampled_from(["Ann lives in Lyon.", "Ben sails."]),
    lines=st.lists(st.integers(-1, 5), max_size=4),
    replaces=st.lists(st.integers(-1, 4).map("m{}".format) | st.integers(-1, 4), max_size=3),
)


@given(st.lists(insights, max_size=4))
def test_an_answer_without_fault_rests_on_evidence_of_one_speaker_and_replaces_only_what_was_offered(given: list[Any]):
    lines = tuple(lines_of(2, *LINES, "Ben: I sail."))
    context = BlendContext(lines, MEMORIES, (), 2000, 2)
    answer = InsightsForm.model_validate({"insights": given})
    if fault_of(answer, context) is not None:
        return
    made = insights_of(answer, context)
    speaker_of = {each.memory_id: each.speaker for each in MEMORIES}
    replaced = [id_ for insight in made for id_ in insight.replaces]
    assert len(made) == min(len(given), 2)
    assert len(set(replaced)) == len(replaced)
    for insight in made:
        assert all(line.is_evidence for line in insight.evidence)
        assert insight.speaker in {line.speaker for line in insight.evidence}
        assert set(insight.evidence) & set(lines[-2:])
        assert {speaker_of[id_] for id_ in insight.replaces} <= {insight.speaker}
        assert (insight.kind is InsightKind.NEW) == (not insight.replaces)


# ---- offline


async def blend(*dialogue: str, remembered: tuple[str, ...] = ()) -> list[tuple[str, str, tuple[str, ...]]]:
    letters = "abcdefgh"
    memories = tuple(memory(f"1{letters[place]}", text) for place, text in enumerate(remembered))
    scene = BlendInput(tuple(lines_of(2, *dialogue)), memories)
    found = await OfflineBlender(BlendSettings()).blend(scene, urgent=True)
    return [(insight.kind.value, insight.text, insight.replaces) for insight in found.insights]


async def test_offline_the_last_two_utterances_give_what_they_state():
    told = await blend("Ann: I adopted a cat.", "Ben: I moved to Lyon in May.", "Ann: Where do you live now?")
    assert told == [("new", "Ben moved to Lyon in May.", ())]


@pytest.mark.parametrize(
    "dialogue",
    [
        ["Ann: I ran the marathon in 2:05. Sorry, it was 2:15, not 2:05."],
        ["Ann: I ran the marathon in 2:05.", "Ann: No, 2:15, not 2:05."],
    ],
    ids=["one line", "two lines"],
)
async def test_offline_a_statement_is_told_with_its_correction(dialogue: list[str]):
    ((_, text, _),) = await blend(*dialogue)
    assert text.startswith("Ann ran the marathon in 2:05.")
    assert "2:15, not 2:05" in text


async def test_offline_at_most_two_insights():
    told = await blend("Ann: I quit my job. I sold my car. I adopted a cat. I joined a choir.")
    assert len(told) == 2


@pytest.mark.parametrize(
    ("remembered", "kind"),
    [
        ("Ben moved to Lyon in May.", "redundant"),
        ("ben moved to Lyon, in May", "redundant"),
        ("Ben moved to Paris in May.", "new"),
        ("Ben never moved to Lyon in May.", "new"),
        ("Ben will move to Lyon in May.", "new"),
    ],
)
async def test_offline_only_what_is_near_identical_is_redundant(remembered: str, kind: str):
    memories = (memory("1a", remembered, speaker="Ben"),)
    scene = BlendInput(tuple(lines_of(2, "Ben: I moved to Lyon in May.")), memories)
    found = await OfflineBlender(BlendSettings()).blend(scene, urgent=True)
    (insight,) = found.insights
    assert (insight.kind.value, insight.replaces) == (kind, ("1a",) if kind == "redundant" else ())


async def test_offline_the_same_words_of_another_speaker_are_new():
    assert await blend("Ben: I moved to Lyon in May.", remembered=("Ben moved to Lyon in May.",)) == [
        ("new", "Ben moved to Lyon in May.", ())
    ]


async def test_offline_nothing_is_told_twice_in_a_session():
    desk = Desk()
    first, _ = await desk.ask(1, "Ann: I moved to Lyon in May.")
    second, context = await desk.ask(1, "Ann: I moved to Lyon in May.", "Ben: Great!")
    assert (len(first.insights), second.insights, context.insights) == (1, (), first.insights)


@pytest.mark.parametrize(
    ("dialogue", "words"),
    [
        (("Ann: hello", "Ben: Did you find the red boat, Ann?"), "find red boat"),
        (("Ann: We adopted Rex's brother", "Ben: Oh, you did?"), "adopted Rex's brother"),
        (("Ann: 我搬到里昂了",), "我搬到里昂了"),
        (("Ann: मेरे भाई का नाम?",), "मेरे भाई का नाम"),
        (("Ann: ma me\u0300re",), "ma me\u0300re"),
        (("Ann: Why?",), "Why?"),
    ],
)
def test_offline_the_question_is_made_of_content_words(dialogue: tuple[str, ...], words: str):
    assert search_words(lines_of(2, *dialogue)) == words


@pytest.mark.parametrize("written", ["m1", "M1", "[m1]", "memory 1", "Memory 1: Ann lives in Oslo.", "mem_1", 1, "1"])
async def test_the_id_of_a_memory_is_read_as_small_models_write_it(written: str | int):
    script = Scripted(one(replaces=[written]))
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert len(script.prompts) == 2
    assert [insight.replaces for insight in proposal.insights] == [("1a",)]


async def test_a_model_that_gives_the_numbers_of_lines_for_memories_ends_none():
    told = tuple(memory(f"1{letter}", f"Ann likes dish {letter}.") for letter in "abcdefgh")
    lines = [f"Ann: I cooked dish number {number} today." for number in range(8)]
    script = Scripted(*(one(lines=[number], replaces=[number]) for number in range(2, 8) for _ in range(2)))
    desk = Desk(script)
    await desk.keep(1, *told)
    for number in range(2, 8):
        proposal, _ = await desk.ask(2, *lines[:number])
        assert not any(insight.replaces for insight in proposal.insights)


async def test_the_ids_of_memories_are_no_lines():
    script = Scripted(one(lines=["m2", 3]))
    desk = Desk(script)
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert [[line.utterance_id for line in insight.evidence] for insight in proposal.insights] == [["2-3"]]


def test_of_a_record_of_what_was_read_the_same_is_read():
    written = {"insights": [{**GOOD, "replaces": "m2 and memory 3", "lines": "1, 3"}]}
    answer = InsightsForm.model_validate(written)
    assert answer.insights[0].replaces == ("m2", "m3")
    assert InsightsForm.model_validate_json(answer.model_dump_json()) == answer


KNOWN = (memory("1a", "Ann rows at dawn."), memory("1b", "Ann has a viola."), memory("1c", "Ann bakes bread."))
TALK = ("Ben: And the bread?", "Ann: I gave it up.")
MISTAKEN = said("Ann gave up baking bread.", kind="Updated", replaces=["viola"])


async def test_the_id_of_a_memory_that_speaks_of_something_else_is_asked_for_once_more():
    script = Scripted(MISTAKEN, said("Ann gave up baking bread.", kind="Updated", replaces=["bakes bread"]))
    desk = Desk(script, BlendSettings(retrieved=3))
    await desk.keep(1, *KNOWN)
    proposal, _ = await desk.ask(2, *TALK)
    assert "speaks of something else" in script.prompts[-1].user
    assert proposal.insights[0].replaces == ("1c",)


async def test_an_insight_that_replaces_what_speaks_of_something_else_ends_nothing():
    desk = Desk(Scripted(MISTAKEN), BlendSettings(retrieved=3))
    await desk.keep(1, *KNOWN)
    proposal, _ = await desk.ask(2, *TALK)
    assert [(insight.text, insight.kind, insight.replaces) for insight in proposal.insights] == [
        ("Ann gave up baking bread.", InsightKind.NEW, ())
    ]


async def test_a_change_that_shares_no_word_with_any_memory_is_believed():
    script = Scripted(said("Ann is a florist.", kind="Updated", replaces=["nurse"]))
    desk = Desk(script)
    await desk.keep(1, memory("1a", "Ann works as a nurse."), memory("1b", "Ann has a dog."))
    proposal, _ = await desk.ask(2, "Ben: And what do you do?", "Ann: A florist now.")
    assert len(script.prompts) == 2
    assert proposal.insights[0].replaces == ("1a",)


async def test_the_text_of_an_insight_names_no_lines_and_no_memories():
    desk = Desk(Scripted(one(text="Ann moved from Oslo (m1) to Lyon [3].")))
    await desk.keep(1, *MEMORIES)
    proposal, _ = await desk.ask(2, *LINES)
    assert proposal.insights[0].text == "Ann moved from Oslo to Lyon."
