"""Finds days and periods that lie behind ("yesterday", "last week", "two months ago", "on Sunday"). English only.

Words are resolved against the day on which they were said. Bare days and months are the nearest before that day.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from eunoe.workers.text.day_words import DAY_WORDS, WEEKDAYS, in_lower_case
from eunoe.workers.text.periods import COUNTS, MONTHS, Period, end_of_month, months_later

_GONE = [word for word, days in DAY_WORDS.items() if days <= 0]
_COUNT = r"\d{1,3}|" + "|".join(sorted(COUNTS, key=len, reverse=True))
_UNIT = r"(?:day|week|month|year)"
_CAPITAL_MONTH = "(?-i:" + "|".join(MONTHS) + ")"
_MONTH = "|".join(MONTHS)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d\d"
_PERIOD = re.compile(
    rf"\b(?:(?P<word>{'|'.join(_GONE)})"
    rf"|(?:(?:in|over|during|for) )?(?:the )?(?:last|past) (?P<count>{_COUNT}) (?P<many>{_UNIT})s?"
    rf"|(?:about )?(?P<ago>{_COUNT}) (?P<away>{_UNIT})s? ago"
    rf"|(?:the )?(?P<way>last|past|previous|this) (?P<unit>week|weekend|month|year)"
    rf"|(?:on |since )?(?:last |this )?(?P<weekday>{'|'.join(WEEKDAYS)})"
    rf"|(?:on |since )?(?:the )?(?P<day>{_DAY})(?: of)? (?P<month>{_MONTH})(?:,? (?P<year>{_YEAR}))?"
    rf"|(?:on |since )?(?P<month_>{_MONTH}) (?P<day_>{_DAY})(?:,? (?P<year_>{_YEAR}))?"
    rf"|(?:in|of|since|during|last|this) (?P<whole>{_MONTH})(?: (?P<year__>{_YEAR}))?"
    rf"|(?P<capital>{_CAPITAL_MONTH}) (?P<year___>{_YEAR})"
    rf"|(?:in|of|since|during) (?P<only>{_YEAR}))(?![\w-])",
    re.IGNORECASE,
)
_AROUND = {"day": 0, "week": 4}
"""Days before and behind the one that "two weeks ago" counts to: nobody counts them exactly."""


def past_periods_in(text: str, said: date) -> Iterator[Period]:
    """The days and periods behind ``said`` that a text names, in order; the current day, week, month and year too.

    ``said`` is the day of the text by its speaker's clock. Days that are in no calendar are none.
    """
    for found in _PERIOD.finditer(text):
        try:
            first, last = _days(found, said)
        except (OverflowError, ValueError):  # 30 February, or a day beyond the calendar
            continue
        since = in_lower_case(found.group()).startswith("since ")
        yield Period(found.start(), found.end(), first, max(last, said) if since else last)


def _days(found: re.Match[str], said: date) -> tuple[date, date]:
    if found["word"]:
        return _one(said + timedelta(days=DAY_WORDS[in_lower_case(found["word"])]))
    if found["many"]:
        return _back(said, _number(found["count"]), in_lower_case(found["many"])), said
    if found["away"]:
        return _ago(said, _number(found["ago"]), in_lower_case(found["away"]))
    if found["unit"]:
        return _unit(said, in_lower_case(found["unit"]), back=in_lower_case(found["way"]) != "this")
    if found["weekday"]:
        wanted = WEEKDAYS.index(in_lower_case(found["weekday"]))
        return _one(said - timedelta(days=(said.weekday() - wanted - 1) % 7 + 1))
    return _dated(found, said)


def _dated(found: re.Match[str], said: date) -> tuple[date, date]:
    """The days of a date, a month or a year."""
    if found["only"]:
        return date(int(found["only"]), 1, 1), date(int(found["only"]), 12, 31)
    whole = found["whole"] or found["capital"]
    if whole:
        return _month(said, whole, found["year__"] or found["year___"])
    day, month, year = (found[name] or found[f"{name}_"] for name in ("day", "month", "year"))
    return _one(_day(said, int(in_lower_case(day).rstrip("stndrh")), _place(month), year))


def _one(day: date) -> tuple[date, date]:
    return day, day


def _number(count: str) -> int:
    return int(count) if count.isdecimal() else COUNTS[in_lower_case(count)]


def _place(month: str) -> int:
    return MONTHS.index(month.title()) + 1


def _back(said: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return said - timedelta(days=count * (7 if unit == "week" else 1))
    return months_later(said, -count * (12 if unit == "year" else 1))


def _ago(said: date, count: int, unit: str) -> tuple[date, date]:
    day = _back(said, count, unit)
    if unit in _AROUND:
        around = timedelta(days=_AROUND[unit])
        return day - around, day + around
    return (day.replace(day=1), end_of_month(day)) if unit == "month" else _year(day)


def _unit(said: date, unit: str, *, back: bool) -> tuple[date, date]:
    """A calendar week, weekend, month or year: the current one, or the one before."""
    if unit in ("week", "weekend"):
        monday = said - timedelta(days=said.weekday() + 7 * back)
        return monday + timedelta(days=5 * (unit == "weekend")), monday + timedelta(days=6)
    if unit == "month":
        first = months_later(said.replace(day=1), -int(back))
        return first, end_of_month(first)
    return _year(months_later(said, -12 * back))


def _year(day: date) -> tuple[date, date]:
    return day.replace(month=1, day=1), day.replace(month=12, day=31)


def _month(said: date, name: str, year: str | None) -> tuple[date, date]:
    number = _place(name)
    first = date(int(year) if year else said.year - int(number > said.month), number, 1)
    return first, end_of_month(first)


def _day(said: date, number: int, month: int, year: str | None) -> date:
    if year:
        return date(int(year), month, number)
    found = date(said.year, month, number)
    return found if found <= said else date(said.year - 1, month, number)
