"""Offline replies about oneself: what holds last, one's own and nobody else's, and the name of what is asked for."""

from datetime import timedelta

import pytest

from eunoe.schemas.events import Ask
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.offline.others import tells_of_others, tells_of_self
from eunoe.workers.respond.offline.replier import NOTHING, OfflineReplier
from eunoe.workers.respond.offline.whose import (
    may_name,
    named_thing,
    naming,
    people_asked,
    states_asked,
    subjects_asked,
)
from eunoe.workers.respond.replier import ReplyTask
from eunoe.workers.text.lasting import tells_home, tells_work
from tests.support.chats import local_embedder
from tests.support.in_memory import START, ended, utterance
from tests.unit.workers.respond.test_respond_replies import SPEAKERS, context, line, row, task

SESSIONS = (
    (
        "Hello! My name is Ann. I'm 41 and I live in Porto.",
        "I work as a nurse at St. Anne's. I have two kids, Leo and Ida.",
        "I have to be careful, I'm allergic to ibuprofen.",
        "My sister Anu is allergic to peanuts, so we are quite a family.",
    ),
    (
        "We also adopted a cat. She's called Miso, a grey tabby, two years old.",
        "My husband Tom wanted a dog, but our flat is too small.",
        "Could you remember that our anniversary is on the 9th of June?",
    ),
    (
        "Big news: we moved to Lisbon last week!",
        "I got a new job at the university hospital. Still nursing.",
    ),
    ("Tom won, we now have a puppy called Biscuit.", "I turned 42 on Monday."),
)
ANSWERS = {
    "What am I allergic to?": "ibuprofen",
    "What is Anu allergic to?": "peanuts",
    "Where do I live?": "Lisbon",
    "Where do I work?": "university hospital",
    "What do I do for a living?": "university hospital",
    "How old am I?": "42",
    "Where did I live before?": "Porto",
    "Where did I work before?": "St. Anne",
    "What are my children called?": "Leo and Ida",
    "What is my cat called?": "Miso",
    "What is the dog's name?": "Biscuit",
    "What is my husband called?": "My husband Tom",
    "When is our anniversary?": "9th of June",
}


async def replies(*questions: str) -> list[str]:
    """The texts of the replies to Ann, a month after the last session."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    number = 0
    for month, session in enumerate(SESSIONS):
        for text in session:
            number += 1
            await pipeline.produce(utterance(number, text, speaker="Ann", at=START + timedelta(days=30 * month)))
        await pipeline.produce(ended(at=START + timedelta(days=30 * month, hours=1)))
    for place, question in enumerate(questions):
        ask = Ask(request_id=f"r{place}", record=False)
        at = START + timedelta(days=30 * len(SESSIONS))
        await pipeline.produce(utterance(50 + place, question, speaker="Ann", at=at, ask=ask))
    texts = {reply.request_id: reply.text for reply in pipeline.replies()}
    return [texts[f"r{place}"] for place in range(len(questions))]


async def test_the_first_quotation_answers_what_is_asked_of_oneself():
    found = dict(zip(ANSWERS, await replies(*ANSWERS), strict=True))
    first = {question: text.partition("”")[0] for question, text in found.items()}
    assert {question: text for question, text in first.items() if ANSWERS[question] not in text} == {}
    assert all(text.startswith("On ") for text in first.values())  # what was said, not the memory of it


async def test_another_name_is_no_answer():
    assert await replies("What is my parrot called?") == [NOTHING]


@pytest.mark.parametrize(
    ("question", "thing"),
    [
        ("What is my dog called?", "dog"),
        ("What's the name of my sister's dog?", "dog"),
        ("What is my husband's name?", "husband"),
        ("How is the big white cat named?", "cat"),
        ("What is my name?", None),
        ("What is your name?", None),
        ("Who called yesterday?", None),
    ],
)
def test_the_thing_whose_name_is_asked_for(question: str, thing: str | None):
    assert named_thing(question) == thing


def test_a_text_names_a_thing_by_a_verb_or_by_the_name_behind_it():
    assert may_name("We have a dog called Rex.", {"dog"})
    assert may_name("My dog Rex barks.", {"dog"})
    assert may_name("My dog Élan barks.", {"dog"})
    assert may_name("My kids are Ella and Tom.", {"kid"})
    assert not may_name("My dog barks.", {"dog"})
    assert not may_name("Our cat is called Miso.", {"dog"})
    assert not may_name("A dog, I think.", {"dog"})
    assert may_name("Her name is Pepper, she is nine.", {"dog"})
    assert may_name("I came home with a greyhound. Her name is Pepper.", {"dog"})
    assert not may_name("We have a cat. Her name is Pepper.", {"dog"})
    assert may_name("It's a girl! Her name is Klara.", {"daughter"})
    assert may_name("It's a girl! Her name is Klara.", {"grandchildren"})
    assert not may_name("It's a girl! Her name is Klara.", {"sister"})


def test_what_says_whom_it_names_goes_before_what_does_not():
    texts = ["It's a girl! Her name is Klara.", "My daughter Hanna lives in Freiburg."]
    assert naming(texts, {"daughter"}) == [False, True]
    assert naming(texts[:1], {"daughter"}) == [True]


def test_what_a_text_tells_of_others():
    assert tells_of_others("My sister is allergic.", {"allerg"})
    assert tells_of_others("She is allergic to nuts.", {"allerg"})
    assert not tells_of_others("I am allergic, too. My sister is not.", {"allerg"})
    assert not tells_of_others("My sister is tall.", {"allerg"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Her name is Jo, she works at the library.", True),
        ("Theresa works at the clinic.", True),
        ("I have a new friend, Theresa works at the clinic.", True),
        ("Theresa works with me at the clinic.", False),
        ("Theresa and I are friends, I work at the clinic.", False),
        ("Ann works at the clinic.", False),
        ("Work is fine.", False),
        ("My work is fine.", False),
        ("My colleagues from work were there.", False),
    ],
)
def test_a_clause_or_a_name_tells_of_others(text: str, expected: bool):
    assert tells_of_others(text, {"work", "colleagu"}, {"ann"}) is expected


def test_what_a_text_tells_of_its_speaker():
    assert tells_of_self("I'm allergic to shellfish.", {"allerg"}, {"ben"})
    assert tells_of_self("It rains. My allergy is back.", {"allerg", "allergi"}, {"ben"})
    assert not tells_of_self("I know Ben is allergic.", {"allerg"}, {"ben"})
    assert not tells_of_self("I thought you are allergic.", {"allerg"}, {"ben"})
    assert not tells_of_self("Nuts are out, he is allergic.", {"allerg"}, {"ben"})
    assert not tells_of_self("I like fish.", {"allerg"}, {"ben"})


@pytest.mark.parametrize(
    ("question", "people"),
    [
        ("What am I allergic to?", {"Ann"}),
        ("What is Ben allergic to?", {"Ben Hur"}),
        ("Where does ben work?", {"Ben Hur"}),
        ("What is Ben's sister allergic to?", set()),
        ("Who likes Ben?", set()),
        ("Who is allergic?", set()),
    ],
)
def test_of_whom_a_question_asks(question: str, people: set[str]):
    assert subjects_asked(question, "Ann", {"Ben Hur"}) == people


SHELLFISH = (
    row(1, "I cannot eat nuts, remember?", speaker="Ben"),
    row(2, "I'm allergic to shellfish, so no paella for us.", speaker="Ann"),
    row(3, "Theresa is allergic to cats.", speaker="Ben", day=9),
)


@pytest.mark.parametrize(
    ("question", "number"),
    [("What is Ben allergic to?", 1), ("What is Ann allergic to?", 2), ("Who is allergic to cats?", 3)],
)
async def test_what_others_are_is_no_answer(question: str, number: int):
    answer = await OfflineReplier(local_embedder()).reply(task(*SHELLFISH, asked=question))
    assert [one.number for one in answer.cited] == [number]


async def test_what_only_somebody_else_does_is_not_known():
    met = row(1, "I met someone. Her name is Jo, she works at the library.")
    asked = ReplyTask("Ben", line("Where do I work?"), (), context(met), SPEAKERS)
    assert (await OfflineReplier(local_embedder()).reply(asked)).text == NOTHING


def test_whose_state_is_asked_for():
    assert people_asked("Where do I live?", "Ann", set()) == {"Ann"}
    assert people_asked("What is my job?", "Ann", set()) == {"Ann"}
    assert people_asked("Where does Ben live?", "Ann", {"Ben"}) == {"Ben"}
    assert people_asked("Where does my brother live?", "Ann", set()) == set()
    assert people_asked("Where does Ben's brother live?", "Ann", {"Ben"}) == set()


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Do I still live in Rome?", tells_home),
        ("do i still live in rome?", tells_home),
        ("Am I living in Rome?", tells_home),
        ("Does Ben live in Hawaii?", tells_home),
        ("Do I still work at the hospital?", tells_work),
        ("Does Ben work for Siemens?", tells_work),
        ("Do I live in a flat?", None),
        ("Do I live with my sister?", None),
        ("Do I work in shifts?", None),
        ("Did I live in Rome?", None),
    ],
)
def test_a_question_whether_asks_for_a_home_or_work_too(question: str, asked: object) -> None:
    assert states_asked(question) == (() if asked is None else (asked,))


async def test_whether_somebody_still_lives_somewhere_is_answered_by_the_last_home() -> None:
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    for number, text in (
        (1, "I live in Rome and I work as a nurse."),
        (3, "I finally moved to Milan, near the canals."),
    ):
        await pipeline.produce(utterance(number, text), ended())
    await pipeline.produce(utterance(5, "Do I still live in Rome?", ask=Ask(request_id="r", record=False)))
    (reply,) = pipeline.replies()
    assert "Milan" in reply.text
    assert "live in Rome" not in reply.text
