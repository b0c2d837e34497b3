"""Offline replies where most of a chat is about other people: what they are and do is not told of who asks."""

import pytest

from eunoe.workers.respond.offline import NOTHING
from eunoe.workers.respond.whose import in_first_person, tells_of_others
from tests.support.chats import chat

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
        ("Ann lives in Cardiff.", "Ann lives in Cardiff."),
        ("Anna's sister got engaged.", "Anna's sister got engaged."),
    ],
)
def test_a_memory_is_read_as_its_speaker_would_say_it(memory: str, said: str):
    assert in_first_person(memory, "Ann") == said
