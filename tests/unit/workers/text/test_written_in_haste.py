"""Chats as people write them in haste: small letters, laughter, faces, no subject."""

import pytest

from eunoe.workers.text.expiry import end_of_pregnancy
from eunoe.workers.text.lasting import tells_age, tells_home, tells_work, tells_workplace
from eunoe.workers.text.supposed import told_as_true
from tests.support.in_memory import START
from tests.unit.workers.text.test_remembered_truly import memories


@pytest.mark.parametrize(
    ("said", "remembered"),
    [
        (":D I live in Leeds", ["Ann lives in Leeds"]),
        ("Lol I live in Leeds :)", ["Ann lives in Leeds"]),
        ("😂😂 my sister moved to Paris haha", ["Ann's sister moved to Paris"]),
        ("im allergic to penicillin btw", ["Ann is allergic to penicillin"]),
        ("guys I broke my arm skiing :(", ["Ann broke their arm skiing"]),
        ("good morning my name is ann i am 71 and i live in bristol", ["Ann is 71.", "Ann lives in bristol"]),
        ("hey! im ann, 34, i live in leeds", ["Ann is 34.", "Ann lives in leeds"]),
        ("I've switched from coffee to green tea :)", ["Ann has switched from coffee to green tea"]),
        ("I can only run on tuesdays", ["Ann can only run on tuesdays"]),
        ("I play the cello, hope that's ok", ["Ann plays the cello, hope that's ok"]),
        ("My doctor is dr patel", ["Ann's doctor is dr patel"]),
        ("so the lisbon trip is off", ['Ann said: "The lisbon trip is off"']),
    ],
)
def test_what_is_said_is_remembered_without_laughter_and_faces(said: str, remembered: list[str]):
    assert memories(said) == remembered


@pytest.mark.parametrize(
    "said", ["lol", ":D", "I can only imagine how that was", "I play the fool", "- buy milk", "haha good one"]
)
def test_what_says_nothing_is_not_remembered(said: str):
    assert memories(said) == []


@pytest.mark.parametrize("said", ['"Lol" is no word', "¿Dónde?", "$500 is the rent", "<b>bold</b>", "~5 km"])
def test_signs_that_say_something_stay(said: str):
    assert memories(f"I live in Leeds. {said}")[0] == "Ann lives in Leeds."


@pytest.mark.parametrize(
    ("sentences", "told"),
    [
        (["What if I moved to Canada?", "My server is at Hetzner."], ["My server is at Hetzner."]),
        (["Say I have 10k users, what do I pay?", "I pay by card."], ["I pay by card."]),
        (["Suppose I have 10k users.", "I pay by card."], []),
        (["Pretend I am a customer, ok?", "I bought a phone."], []),
    ],
)
def test_a_supposition_that_asks_ends_with_its_mark(sentences: list[str], told: list[str]):
    assert told_as_true(sentences) == told


@pytest.mark.parametrize(
    ("tells", "said"),
    [
        (tells_home, "we moved to york last weekend"),
        (tells_home, "I sold the house and moved into a flat in clevedon near the sea"),
        (tells_home, "our place is on Heslington Road"),
        (tells_work, "got the job at Greggs HQ!!"),
        (tells_workplace, "I work nights at a bakery"),
        (tells_workplace, "I teach maths at a school in Leicester"),
        (tells_age, "I'm sam, 34, and new here"),
    ],
)
def test_homes_work_and_ages_are_told_in_haste(tells, said: str):
    assert tells(said)


@pytest.mark.parametrize(
    ("tells", "said"),
    [
        (tells_home, "We moved to bigger tasks."),
        (tells_home, "we moved in june"),
        (tells_home, "we moved to the next level"),
        (tells_home, "our house is on sale"),
        (tells_work, "my brother got the job at Greggs"),
        (tells_workplace, "I work nights"),
        (tells_workplace, "I'm a product developer now"),
    ],
)
def test_other_moves_and_hours_of_work_are_neither_home_nor_workplace(tells, said: str):
    assert not tells(said)


def test_a_pregnancy_is_over_after_forty_weeks():
    ends = end_of_pregnancy("Nina is pregnant!!!", START)
    assert ends is not None
    assert (ends - START).days == 7 * 40 + 1
    assert end_of_pregnancy("Nina was pregnant when it is said that she fell.", START) is None
    assert end_of_pregnancy("Nina is tired.", START) is None
