"""Texts that say the same in the same words, and those that differ by a sign. Pure."""

import unicodedata

import pytest

from eunoe.workers.text.drafts import plain_words
from eunoe.workers.text.same_words import same_words
from eunoe.workers.update.memories import normalized
from tests.support.updates import Updates, formed

OTHER_FACTS = (
    ("मेरा बेटा मुंबई में डॉक्टर है।", "मेरी बेटी मुंबई में डॉक्टर है।"),  # my son, my daughter
    ("ฉันซื้อเสือ", "ฉันซื้อเสื้อ"),  # a tiger, a shirt
    ("আমার বাবা অসুস্থ", "আমার বিবি অসুস্থ"),  # my father, my wife
    ("Ann's blood type is A+.", "Ann's blood type is A-."),
    ("Ann programs in C++.", "Ann programs in C#."),
    ("The freezer is at -5 degrees.", "The freezer is at 5 degrees."),
    ("The flat costs €900.", "The flat costs $900."),
    ("Tom got 5% of it.", "Tom got 5 of it."),
)
"""Pairs of which letters and digits alone are the same."""


@pytest.mark.parametrize(("one", "other"), OTHER_FACTS)
def test_a_sign_makes_another_word(one: str, other: str):
    assert same_words(one) != same_words(other)
    assert normalized(one) != normalized(other)
    assert plain_words(one) != plain_words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann lives in Lyon.", "ann lives  in «Lyon»!"),
        ("A well-known – very old – town", "a well known, very old town"),
        ("It was 2026-03-08, 3.5 km away", "it was 2026/03/08; 3,5 km away!"),
        ("*Ann* said: “no” (twice)", "Ann said: 'no' twice"),
        ("Rémi habite à Orléans ❤️", unicodedata.normalize("NFD", "Rémi habite à Orléans ❤")),
    ],
)
def test_case_spaces_punctuation_and_form_make_no_difference(one: str, other: str):
    assert same_words(one) == same_words(other)


def test_a_text_without_words_is_compared_as_it_is():
    assert normalized("👍") != normalized("👎")


@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize(("one", "other"), OTHER_FACTS[:3])
async def test_what_differs_by_a_sign_stays_two_memories(one: str, other: str, *, with_model: bool):
    updates = Updates(script={} if with_model else None)
    await updates.hear(formed(1, one), formed(2, other))
    assert await updates.current() == [one, other]
