"""Words for days are read with letters that only their case makes ASCII ones: "sıx days ago", "Auguſt"."""

from datetime import date

import pytest

from eunoe.workers.respond.times import read_times
from eunoe.workers.text.days import with_days
from eunoe.workers.text.past_periods import past_periods_in
from eunoe.workers.text.periods import periods_in
from tests.support.in_memory import ended, make_pipeline, utterance

SAID = date(2023, 6, 1)
LETTERS = (("i", "ı"), ("i", "İ"), ("s", "ſ"), ("k", "\u212a"))  # dotless i, dotted capital I, long s, Kelvin
PHRASES = (
    *("yesterday", "tonight", "last night", "this evening", "the day before yesterday", "this week", "last weekend"),
    *("six days ago", "six weeks ago", "in six days", "for the next six weeks", "in the last six months", "on sunday"),
    *("next tuesday", "last friday", "in april", "5th of august", "1st of august", "since april", "september 2nd"),
)


def read(text: str) -> tuple[object, ...]:
    return (
        read_times(text),
        list(periods_in(text, SAID)),
        list(past_periods_in(text, SAID)),
        with_days(text, SAID).count("(2"),
    )


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize(("letter", "other"), LETTERS)
def test_letters_of_the_same_case_fold_stop_no_reader_of_days(phrase: str, letter: str, other: str):
    read(phrase.replace(letter, other))


@pytest.mark.parametrize("word", ["yeſterday", "tonıght", "TONİGHT", "ſix weeks ago", "sıx weeks ago"])
def test_a_day_word_with_such_a_letter_means_the_same(word: str):
    plain = word.translate(str.maketrans("ıİſ", "iis")).lower()
    found, expected = (list(past_periods_in(one, SAID)) for one in (word, plain))
    assert found == expected != []


def test_a_month_with_such_a_letter_is_the_month():
    assert read_times("When in Auguſt 2022?") == read_times("When in August 2022?") != []
    assert read_times("Aprıl 5") == read_times("April 5") != []


async def test_a_session_that_is_told_with_such_letters_is_remembered():
    pipeline = make_pipeline()
    told = "I moved to Lyon ſix weeks ago, and yeſterday I began my new job as a nurse."
    await pipeline.produce(utterance(1, told), utterance(2, "Tonıght I meet my sıster."), ended())
    assert not pipeline.dead_letters()
