"""Days and periods behind the day of a text, by the words that people use for them."""

from datetime import date

import pytest

from eunoe.workers.text.past_periods import past_periods_in

WEDNESDAY = date(2026, 6, 10)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did I say yesterday?", "2026-06-09", "2026-06-09"),
        ("the day before yesterday", "2026-06-08", "2026-06-08"),
        ("Last night", "2026-06-09", "2026-06-09"),
        ("this morning", "2026-06-10", "2026-06-10"),
        ("last week", "2026-06-01", "2026-06-07"),
        ("this week", "2026-06-08", "2026-06-14"),
        ("last weekend", "2026-06-06", "2026-06-07"),
        ("last month", "2026-05-01", "2026-05-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("in the past three days", "2026-06-07", "2026-06-10"),
        ("over the last 2 weeks", "2026-05-27", "2026-06-10"),
        ("two days ago", "2026-06-08", "2026-06-08"),
        ("a week ago", "2026-05-30", "2026-06-07"),
        ("2 months ago", "2026-04-01", "2026-04-30"),
        ("a year ago", "2025-01-01", "2025-12-31"),
        ("on Sunday", "2026-06-07", "2026-06-07"),
        ("on wednesday", "2026-06-03", "2026-06-03"),
        ("since Monday", "2026-06-08", "2026-06-10"),
        ("in march", "2026-03-01", "2026-03-31"),
        ("in September", "2025-09-01", "2025-09-30"),
        ("in May 2024", "2024-05-01", "2024-05-31"),
        ("on the 3rd of July", "2025-07-03", "2025-07-03"),
        ("on May 19", "2026-05-19", "2026-05-19"),
        ("in 2024", "2024-01-01", "2024-12-31"),
        ("since 2024", "2024-01-01", "2026-06-10"),
    ],
)
def test_words_for_days_are_resolved(text: str, first: str, last: str) -> None:
    (found,) = past_periods_in(text, WEDNESDAY)
    assert (str(found.first), str(found.last)) == (first, last)
    assert text[found.start : found.end].strip() == text[found.start : found.end]


@pytest.mark.parametrize(
    "text",
    ["nothing", "I may march on", "on 31 February", "999 years ago " * 3, "at last", "my last job", "yesterdays"],
)
def test_other_words_are_no_days(text: str) -> None:
    assert list(past_periods_in(text, date(900, 6, 10))) == []
