"""Replies without a model to what was never told of somebody, and to what has changed. People write in haste."""

import pytest

from eunoe.workers.respond.offline.others import third_asked
from tests.support.chats import chat

NOTHING = "I do not remember"
FAMILY = (
    (
        "my husband gets up at five every day",
        "Milo has swimming on mondays at 9:15, hes the little one",
        "my sister Nina needs reading glasses now",
        "got my own desk at work",
        "planning a week in Porto with Vera in june",
        "vera is a baker and paints on sundays",
        "Ran the Dublin marathon on sunday, 4h02",
        "Dr Weiss put me on candesartan 8mg in the morning",
        "book club is at mine on the 8th, 6 people coming",
        "my brother Udo is a plumber",
        "Udo came by with his old red Transit",
        "people with diabetes should watch their feet",
        "Arthritis runs in many families",
        "I come from Graz originally",
        "the dog had to go to the vet again",
        "costs me 210 quid cant believe it",
        "dentist (Petra) says I grind my teeth",
        "I code at a startup called Ferro",
        "vera's coming to see the garden on the 18th",
    ),
    (
        "Vera is ill so the porto trip is off",
        "Dr Weiss changed the dose today, it's 16mg now",
        "Lotte can't make the 8th so book club moved to the 15th",
        "brother Udo fell off a ladder",
        "locker at the gym is number 88",
        "Vera cancelled, too much to do",
        "petra fixed it",
    ),
)


@pytest.mark.parametrize(
    "question",
    [
        "What is my husband called?",
        "what's my husband's name?",
        "how old is milo",
        "Does Milo wear glasses?",
        "what's vera's salary",
        "When did Udo divorce?",
        "Did I run the Lisbon marathon?",
        "Do I have diabetes?",
        "Do I have arthritis?",
        "Is Vera married?",
    ],
)
async def test_whoever_has_only_the_person_is_not_quoted(question: str):
    assert (await chat(FAMILY, question)).replies[question].startswith(NOTHING)


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("Does Nina wear glasses?", "reading glasses"),
        ("What is my sister called?", "Nina"),
        ("What's Vera's job?", "baker"),
        ("What's my locker number?", "88"),
        ("Where am I from?", "Graz"),
        ("Did I run the Dublin marathon?", "4h02"),
        ("Who is Petra?", "dentist"),
        ("What is my company called?", "Ferro"),
        ("What happened to my brother?", "ladder"),
    ],
)
async def test_the_line_that_tells_is_quoted_first(question: str, part: str):
    assert part in (await chat(FAMILY, question)).replies[question].partition("”")[0]


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("Am I going to Porto?", "trip is off"),
        ("What dose of candesartan do I take?", "16mg"),
        ("When is book club?", "15th"),
        ("Is Vera coming on the 18th?", "cancelled"),
        ("How much was the vet?", "210"),
    ],
)
async def test_what_has_changed_since_is_quoted_too(question: str, part: str):
    assert part in (await chat(FAMILY, question)).replies[question]


async def test_a_name_in_small_letters_is_one():
    question = "What is my brother called?"
    sessions = (("my brother udo lives in kiel",),)
    assert "udo" in (await chat(sessions, question)).replies[question]


@pytest.mark.parametrize(
    ("question", "third"),
    [
        ("What is Zoe's job?", {"zoe"}),
        ("what's zoe's job", {"zoe"}),
        ("does zoe eat meat", {"zoe"}),
        ("what's my wife's name", {"wife"}),
        ("does it hurt", set()),
        ("what is today's date", set()),
        ("What's Ben's job?", set()),
    ],
)
def test_the_one_whose_thing_is_asked_for(question: str, third: set[str]):
    assert third_asked(question, ("Ann", "Ben")) == third
