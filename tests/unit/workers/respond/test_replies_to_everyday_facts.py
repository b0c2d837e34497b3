"""Offline replies on a family and what changes there: whose job it is, what was put off, what is not told."""

import pytest

from eunoe.workers.respond.breadth import Breadth, read_breadth
from eunoe.workers.respond.offline.kin_names import kin_named, own_kin_asked
from eunoe.workers.respond.offline.replier import NOTHING
from tests.support.chats import chat
from tests.unit.workers.respond.test_respond_last_word import chosen
from tests.unit.workers.respond.test_respond_replies import row

FAMILY = (
    (
        "I live in Ghent with my husband Wout and our son Stan.",
        "My sister Leen is expecting a baby in autumn.",
        "My mum has high cholesterol. She lives in Bruges with her dog.",
        "The housewarming is on 14 June, in the garden.",
        "My favourite dish is stew.",
        "My apprentice is called Noor.",
    ),
    (
        "Leen is a nurse in Antwerp.",
        "My colleague got a new job, he is a pilot now.",
        "We had to put off the housewarming, there was a leak! Now it's on 30 August.",
        "Mum swims every day now.",
    ),
    ("We moved! We live in Aalst now, in a flat near the park.", "My mother will look after Stan in May."),
)


async def test_what_is_asked_of_a_relative_is_told_with_the_name_of_hers():
    assert "nurse in Antwerp" in (await chat(FAMILY, "What's my sister's job?")).replies["What's my sister's job?"]


@pytest.mark.parametrize(
    ("later", "numbers"),
    [
        ("We had to put off the party, there was a leak! Now it's on 30 August.", [1, 2]),
        ("We had to put off the party, there was a leak! Is it on 30 August?", [1]),
        ("The party needs a cake! We shop on 30 August.", [1]),
    ],
)
def test_the_last_time_is_told_by_a_sentence_that_goes_on_with_it(later: str, numbers: list[int]):
    assert chosen("When is the party?", row(1, "The party is on 14 June."), row(2, later, day=9)) == numbers


async def test_a_former_home_is_told_though_others_have_the_words_of_the_question():
    sessions = (*FAMILY, ("Leen was a baker before.",))
    question = "Where did I live before?"
    assert "Ghent" in (await chat(sessions, question)).replies[question]


async def test_who_does_something_with_the_asker_is_not_told_of_another():
    reply = (await chat(FAMILY, "Who lives with me?")).replies["Who lives with me?"]
    assert "Bruges" not in reply
    assert reply != NOTHING


async def test_all_that_is_known_of_somebody_is_told_of_several_days():
    question = "What do you know about my mother?"
    reply = (await chat(FAMILY, question)).replies[question]
    assert all(part in reply for part in ("cholesterol", "swims", "look after Stan"))
    assert "housewarming" not in reply


@pytest.mark.parametrize("question", ["What is my favourite colour?", "What's my middle name?"])
async def test_a_word_that_tells_nothing_alone_is_no_answer(question: str):
    assert (await chat(FAMILY, question)).replies[question] == NOTHING


@pytest.mark.parametrize(
    ("question", "kin", "named"),
    [
        ("Where does my sister work?", {"sister"}, {"leen"}),
        ("Is our son well?", {"son"}, {"stan"}),
        ("Where does Ben's sister work?", set(), set()),
    ],
)
def test_names_of_relatives(question: str, kin: set[str], named: set[str]):
    texts = ("My sister Leen is here.", "I saw our little son, Stan.", "Her sister Jo left", "my sister Monday")
    assert own_kin_asked(question) == kin
    assert set[str]().union(*kin_named(texts, own_kin_asked(question)).values()) == named


@pytest.mark.parametrize(
    ("question", "breadth"),
    [
        ("What do you know about Stan?", Breadth.SUMMARY),
        ("what do you still remember of my trip", Breadth.SUMMARY),
        ("Do you know the name of my dog?", Breadth.ONE),
    ],
)
def test_whether_all_that_is_known_is_asked_for(question: str, breadth: Breadth):
    assert read_breadth(question) is breadth
