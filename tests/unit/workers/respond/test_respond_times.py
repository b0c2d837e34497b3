"""The days that a question names, against the day on which it is asked."""

from datetime import date

import pytest

from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.times import MAX_TIMES, TimeHint, names_days, read_times, time_fit, without_days

ASKED = date(2026, 6, 10)
SPEAKERS = ("Ann", "Ben")


def days(question: str) -> list[tuple[str, str]]:
    read = read_question(question, SPEAKERS, "Ann", ASKED)
    return [(str(one.first), str(one.last)) for one in read.days]


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("What did we talk about on Sunday?", "2026-06-07"),
        ("What happened on Sunday?", "2026-06-07"),
        ("What do I have on Sunday?", "2026-06-14"),
        ("What will I do on 9 June?", "2027-06-09"),
        ("What did I do on 9 June?", "2026-06-09"),
        ("What did I plan for tomorrow?", "2026-06-11"),
    ],
)
def test_a_bare_day_lies_where_the_question_looks(question: str, day: str) -> None:
    assert days(question) == [(day, day)]


def test_may_is_a_month_only_where_it_is_one() -> None:
    assert days("May I eat nuts?") == []
    assert read_times("May I eat nuts?") == []
    assert days("What happened in May?") == [("2026-05-01", "2026-05-31")]


def test_without_the_day_of_the_question_no_day_is_known() -> None:
    read = read_question("What did I say yesterday?", SPEAKERS, "Ann")
    assert (read.days, read.said) == ((), ())


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did I say yesterday?", True),
        ("What did I say today?", True),
        ("What should I cook today?", False),
        ("What am I doing next week?", False),
    ],
)
def test_only_days_that_have_been_tell_when_the_answer_was_said(question: str, said: bool) -> None:
    read = read_question(question, SPEAKERS, "Ann", ASKED)
    assert len(read.days) == 1
    assert bool(read.said) is said


def test_a_question_has_a_bounded_number_of_days() -> None:
    assert len(days("yesterday and tomorrow, " * 500)) == MAX_TIMES


def test_of_a_long_text_the_ends_are_looked_at() -> None:
    pasted = "rows = read_rows(folder, since=yesterday(), until=today_noon())\n" * 1000
    asked = f"Today I got this.\n{pasted}\nWhat did Ben say of it last week?"
    found = read_question(asked, SPEAKERS, "Ann", ASKED).days
    assert [asked[one.start : one.end] for one in (found[0], found[-1])] == ["Today", "last week"]
    assert len(found) < 80


def test_a_day_fits_best_in_the_period_that_is_meant() -> None:
    asked = read_question("What did I buy in May?", SPEAKERS, "Ann", ASKED)
    within, soon, later, other_year = (
        time_fit(asked.times, day, asked.said)
        for day in (date(2026, 5, 20), date(2026, 6, 3), date(2026, 6, 30), date(2025, 5, 20))
    )
    assert within == 1
    assert within > other_year > soon > later == 0
    assert time_fit((TimeHint(None, 5),), date(2025, 5, 20)) == 1


@pytest.mark.parametrize(
    ("text", "said", "named"),
    [
        ("I tried pottery yesterday.", date(2026, 5, 20), True),
        ("I tried pottery today.", date(2026, 5, 20), False),
        ("I fly on the 19th of May.", date(2026, 5, 1), True),
        ("I fly next weekend.", date(2026, 5, 14), False),
        ("I fly next week.", date(2026, 5, 14), False),
        ("I fly next month.", date(2026, 4, 14), False),
        ("I fly.", date(2026, 5, 19), False),
    ],
)
def test_a_text_names_a_day_by_its_own_day(text: str, said: date, named: bool) -> None:
    asked = read_question("What did I do on 19 May?", SPEAKERS, "Ann", ASKED)
    assert names_days(text, said, asked.days) is named


def test_a_text_names_a_week_by_its_own_day() -> None:
    asked = read_question("What do I have next week?", SPEAKERS, "Ann", ASKED)
    assert names_days("The choir sings the week after next, no, next week.", date(2026, 6, 12), asked.days)
    assert not names_days("The choir sings this month.", date(2026, 6, 12), asked.days)
    (saturday,) = read_question("What do I have on Saturday?", SPEAKERS, "Ann", ASKED).days
    assert names_days("The choir sings this weekend.", ASKED, (saturday,))


def test_words_for_days_are_no_topic() -> None:
    question = "What did I do last week in Rome?"
    assert without_days(question, read_question(question, SPEAKERS, "Ann", ASKED).days) == "What did I do in Rome?"
    assert without_days("yesterday", read_question("yesterday", SPEAKERS, "Ann", ASKED).days) == "yesterday"
