"""Offline replies to what people ask after months: what holds now, what became of it, and who somebody is."""

import pytest

from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.offline.line_choice import only_asks
from eunoe.workers.respond.offline.medicines import asks_for_medicines, rows_of_medicines
from eunoe.workers.respond.offline.others import tells_age_of, tells_of_others
from eunoe.workers.respond.offline.times_told import share_of_time
from eunoe.workers.respond.offline.whose import introduction_asked, people_asked, states_asked
from eunoe.workers.text.endings import ended_things, is_end, resumes
from eunoe.workers.text.lasting import tells_address, tells_home, tells_origin
from eunoe.workers.text.terms import terms
from tests.support.chats import chat
from tests.unit.workers.respond.test_respond_replies import row

CHAT = (
    (
        "I live in Augsburg with my wife Clara and our two kids, Emil (8) and Lotte (5).",
        "we're planning to move house, at the end of june",
        "My doctor put me on sertraline in january, 50 mg. I take it every morning",
        "melatonin, 3 mg, and blackout curtains help me sleep",
        "i share a room w/ Marta from Poland",
        "two clients at the moment: Brouwer Bakery and Studio Vane. my rate is 75 an hour",
        "training for the Hamburg marathon on April 27",
        "We have three grandchildren: Mia, Jonah and Felix.",
    ),
    (
        "So the move is on the 5th of july now, not end of june",
        "Marta moved out, she went back to Krakow",
        "I stopped the melatonin, it gave me nightmares.",
        "studio vane dropped me. budget cuts",
        "no running for 3 weeks, so Hamburg is out",
        "I eat no meat since june, Tuan convinced me",
        "my studio is at Zaagmolenkade 41 now, I left the coworking space",
    ),
    (
        "New address is Am Bach 7, 86916 Kaufering",
        "Felix has a sister now, our fourth grandchild!",
        "I'm gonna raise my rate to 85 from april",
        "I eat meat again lol",
        "my mum had a stroke on thursday.",
        "we cancelled the trip to Denmark because of it",
    ),
    (
        "I'm off sertraline since last week! We tapered it slowly because I felt numb",
        "cetirizine, one a day. works ok",
        "signed up for the Berlin marathon",
    ),
)
ANSWERS = {
    "Where do I live?": ["Am Bach 7"],
    "What is my address?": ["Am Bach 7"],
    "How old is Emil?": ["Emil (8)"],
    "When is the move?": ["5th of july"],
    "Which medicines am I on?": ["cetirizine"],
    "Do I still take sertraline?": ["off sertraline"],
    "Why did I stop sertraline?": ["I felt numb"],
    "Who is Marta?": ["Marta from Poland"],
    "What happened to Marta?": ["back to Krakow"],
    "What happened with Studio Vane?": ["dropped me"],
    "What is my hourly rate?": ["75 an hour", "rate to 85"],
    "Did I run the Hamburg marathon?": ["Hamburg is out"],
    "How many grandchildren do I have?": ["three grandchildren", "fourth grandchild"],
    "Do I eat meat?": ["meat again"],
    "Why did we cancel the trip to Denmark?": ["because of it", "had a stroke"],
}


async def test_what_people_ask_after_months_is_told_as_it_is_now():
    replies = (await chat(CHAT, *ANSWERS)).replies
    missing = {
        question: replies[question] for question, parts in ANSWERS.items() if not _has_all(replies[question], parts)
    }
    assert missing == {}
    assert "sertraline" not in replies["Which medicines am I on?"]
    assert "melatonin" not in replies["Which medicines am I on?"]
    assert "Zaagmolenkade" not in replies["What happened with Studio Vane?"]
    assert "Berlin" not in replies["Did I run the Hamburg marathon?"]


def _has_all(reply: str, parts: list[str]) -> bool:
    return all(part in reply for part in parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How did Clara like it?", True),
        ("Cute! How is school going for Emil?", True),
        ("I cannot eat nuts, remember?", False),
        ("I started at the bakery. Did I tell you?", False),
        ("Could you remember that our anniversary is on the 9th of June?", False),
        ("We moved.", False),
    ],
)
def test_a_line_that_only_asks_is_no_answer(text: str, expected: bool):
    assert only_asks(row(1, text)) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which medicines am I on?", True),
        ("What are my pills?", True),
        ("Which pills did I take in May?", False),
        ("Which medicines are good for a cough?", False),
        ("What is my dose of ramipril?", False),
        ("What medication does my mother take?", False),
        ("What are my mother's pills?", False),
        ("What pills is Ann's sister on?", False),
        ("What is Ben's current medication?", True),
    ],
)
def test_whether_all_medicines_are_asked_for(question: str, expected: bool):
    assert asks_for_medicines(question, read_question(question, ["Ann", "Ben"], "Ann")) is expected


def test_each_medicine_is_told_as_it_was_told_last():
    rows = [
        row(1, "I take metformin, and simvastatin in the evening."),
        row(2, "My brother takes insulin every day."),
        row(3, "It is the ramipril, I looked it up!"),
        row(4, "The doctor stopped the simvastatin. I take only metformin now.", day=5),
        row(5, "I take candesartan, 8 mg.", speaker="Ben", day=6),
        row(6, "Ann takes 20 mg of edoxaban daily.", day=7, is_memory=True),
    ]
    assert rows_of_medicines(rows, {"Ann"}) == [3, 5]
    assert rows_of_medicines(rows, {"Ben"}) == [4]
    assert rows_of_medicines([row(1, "I stopped the melatonin.")], {"Ann"}) == [0]
    assert rows_of_medicines([row(1, "I take walks.")], {"Ann"}) == []
    assert rows_of_medicines([row(1, "I am allergic to penicillin, got a rash as a kid.")], {"Ann"}) == []


def test_homes_are_told_without_a_subject_and_addresses_by_the_street():
    for text in ("living at aunt Hoa's in Creteil now", "designer here, based in Rotterdam", "We live in Ulm."):
        assert tells_home(text)
        assert not tells_origin(text)
    for text in ("I'd love a flat in Rome", "helix is live", "if we live in Rome"):
        assert not tells_home(text)
    for text in ("Frauenstrasse 52", "12 Elm Road", "rue de Paris 88", "in Altona, Bahrenfelder Str. 101", "Am Bach 7"):
        assert tells_address(text)
    for text in ("I am 14", "Valencia 2026", "in the morning at 7"):
        assert not tells_address(text)
    assert states_asked("Where am I from?") == (tells_origin,)
    assert states_asked("What is our address?") == (tells_address,)
    assert people_asked("What is our address?", "Ann", {"Ben"}) == {"Ann"}


def test_ends_of_what_is_taken_and_of_work():
    assert is_end("I'm off sertraline since May.")
    assert ended_things("I'm off sertraline since May.") == {*terms("sertraline")}
    assert is_end("I gave notice at Kuka.")
    assert not is_end("I'm off to work.")
    assert not is_end("I'm off on Monday.")
    assert resumes("I eat meat again.")


def test_who_is_introduced():
    told = introduction_asked("Who is Mats?")
    assert told is not None
    assert all(map(told, ("my colleague Mats", "his name is Mats", "Mats from Kiel", "He has a friend here, Mats.")))
    assert not told("Mats has not called.")
    assert introduction_asked("Who is my boss?") is None


def test_of_whom_a_sentence_tells():
    assert tells_of_others("Priya moves out, to live with her boyfriend.", terms("boyfriend"))
    assert not tells_of_others("I moved in with my boyfriend.", terms("boyfriend"))
    assert tells_age_of("our kids, Emil (8) and Lotte (5)", {*terms("Lotte")})
    assert not tells_age_of("our kids (2), Emil and Lotte", {*terms("Lotte")})


def test_a_number_is_half_a_time():
    assert share_of_time("resit is on may 22") == 1
    assert share_of_time("at 10am") == 1
    assert share_of_time("passed the resit! 13/20") == 0.5
    assert share_of_time("passed") == 0
