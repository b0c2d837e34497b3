"""Offline replies where most of a chat is about other people: what they are and do is not told of who asks."""

import numpy as np
import pytest

from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.offline.line_choice import choose_lines
from eunoe.workers.respond.offline.others import (
    in_first_person,
    tells_age_of,
    tells_of_another,
    tells_of_others,
    third_asked,
)
from eunoe.workers.respond.offline.replier import NOTHING
from eunoe.workers.respond.offline.whose import may_name
from tests.support.chats import chat
from tests.unit.workers.respond.test_respond_replies import row

OTHERS = (
    (
        "My sister Amy got engaged to Rob. They live in Bristol.",
        "My friend Dana lost her job at the bank last week.",
        "My boss Greg is getting divorced, he told me at lunch.",
        "My cousin Leo is a vegan and allergic to soy.",
        "My brother Henrik takes metformin, 1000 mg, for his diabetes.",
        "I take 20 mg of atorvastatin at night.",
    ),
    ("Amy and Rob moved to Cardiff.", "Dana got a new job at a school.", "My dad is recovering at home."),
    (
        "Amy broke up with Rob, the wedding is off. She moved back to Bristol.",
        "Greg sold his house and moved in with his mother.",
        "Karin visited at the weekend with the grandchildren, Mats and Lotte.",
    ),
)


async def test_what_is_told_of_others_alone_is_not_known_of_who_asks():
    questions = (
        "Am I engaged?",
        "Where do I live?",
        "Did I lose my job?",
        "Am I vegan?",
        "Do I take metformin?",
    )
    found = await chat(OTHERS, *questions)
    assert found.replies == dict.fromkeys(questions, NOTHING)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where does Amy live?", "She moved back to Bristol"),
        ("What does my brother take?", "metformin"),
        ("What do I take?", "I take 20 mg of atorvastatin"),
        ("How many grandchildren do I have?", "Mats and Lotte"),
        ("How is my dad?", "recovering"),
    ],
)
async def test_what_is_told_of_who_is_asked_about_is_quoted(question: str, answer: str):
    assert answer in (await chat(OTHERS, question)).replies[question]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Amy and Rob moved to Cardiff.", True),
        ("Greg sold his house and moved in with his mother.", True),
        ("Finally moved to Cardiff.", False),
        ("Just moved in.", False),
        ("Got moved to another team.", False),
        ("It is only two rooms.", False),
        ("Eva moved the sofa with me.", False),
        ("Amy and I moved to Cardiff.", False),
    ],
)
def test_a_clause_that_begins_with_a_name_and_any_verb_is_of_others(text: str, expected: bool):
    assert tells_of_others(text, {"move", "room"}) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Eva came with the kids.", False), ("Eva came with her kids.", True), ("Eva came with Tom's kids.", True)],
)
def test_ones_own_relatives_may_come_with_others(text: str, expected: bool):
    assert tells_of_others(text, {"kid"}) is expected


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("Ann's sister Amy got engaged.", "my sister Amy got engaged."),
        ('Ann said: "Amy moved to Cardiff."', "Amy moved to Cardiff."),
        ("Ann lives in Cardiff.", "I live in Cardiff."),
        ("Ann is 41, and Ann's cat is two.", "I am 41, and my cat is two."),
        ("Ann moved to Cardiff.", "I moved to Cardiff."),
        ("Anna's sister got engaged.", "Anna's sister got engaged."),
    ],
)
def test_a_memory_is_read_as_its_speaker_would_say_it(memory: str, said: str):
    assert in_first_person(memory, "Ann") == said


FAMILY = (
    (
        "I have three children: Nora is 9, Finn is 6 and the baby, Juna, is 14 months.",
        "My girlfriend Clara lives in Bonn. I work as a data engineer at Siemens.",
    ),
    ("Finn turned 7 last Friday.", "Clara found a job as a nurse at the Klinikum."),
    ("We moved Juna to daycare, it's called Little Otters.", "I live in Ulm."),
)


@pytest.mark.parametrize(
    ("question", "answer", "others"),
    [
        ("How old is Nora?", "Nora is 9", "turned 7"),
        ("How old is Finn?", "Finn turned 7", "Little Otters"),
        ("Where does Clara work?", "Klinikum", "Siemens"),
        ("Where does my girlfriend live?", "lives in Bonn", "Ulm"),
        ("What are the names of my children?", "Nora is 9, Finn is 6", "Little Otters"),
        ("What is the name of Juna's daycare?", "Little Otters", "Siemens"),
    ],
)
async def test_of_somebody_who_takes_no_part_nothing_is_told_that_is_of_another(
    question: str, answer: str, others: str
):
    reply = (await chat(FAMILY, question)).replies[question]
    assert answer in reply
    assert others not in reply


@pytest.mark.parametrize(
    ("question", "third"),
    [
        ("Where does Clara work?", {"clara"}),
        ("Is my sister married?", {"sister"}),
        ("Where did Clara's sister work?", set()),
        ("Where does Ben work?", set()),
        ("Where do I work?", set()),
        ("How is my knee?", set()),
    ],
)
def test_the_one_who_takes_no_part(question: str, third: set[str]):
    assert third_asked(question, ("Ann", "Ben")) == third


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I work at Siemens.", True),
        ("Tom works at Siemens.", True),
        ("I work with Clara at Siemens.", False),
        ("Tom lost his work.", True),
        ("Tom met her at work.", False),
        ("I visit her at work.", False),
        ("She works at Siemens.", False),
        ("A nurse, at work from five.", False),
        ("I live in Bonn.", False),
    ],
)
def test_what_is_told_of_another(text: str, expected: bool):
    assert tells_of_another(text, {"work"}, {"clara"}) is expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Nora is 9, Finn is 6.", True),
        ("Nora turned nine.", True),
        ("Our Nora, 9, can swim.", True),
        ("Nora is 9 km away.", False),
        ("Nora is nine hours away.", False),
        ("Nora has 9 dolls.", False),
        ("Finn is 6.", False),
    ],
)
def test_the_age_of_somebody_with_a_name(sentence: str, expected: bool):
    assert tells_age_of(sentence, {"nora"}) is expected


def test_a_place_is_no_name_of_a_child():
    assert may_name("I have two children: Nora and Finn.", {"child", "children"})
    assert not may_name("We found a daycare. It's called Little Otters.", {"child", "children"})
    assert not may_name("We moved to a new daycare, it's called Little Otters.", {"dog"})
    assert may_name("We have a new one. It's called Rex.", {"dog"})


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Do I have a dog?", 1),
        ("Who is pregnant?", 1),
        ("Does Ben have a dog?", 0),  # who is named tells it in words of their own
        ("Did I have a dog?", 0),
    ],
)
def test_a_line_with_too_little_of_a_question_for_what_holds_comes_behind_one_with_enough(question: str, first: int):
    rows = (row(1, "I am a gardener now, which I love"), row(2, "My dog Fips hates the new flat"))
    hints = read_question(question, ("Ann", "Ben"), "Ann")
    assert choose_lines(rows, np.asarray([3.0, 2.8]), hints, frozenset(), [False, True])[0] == first
