"""Resolves relative dates ("yesterday", "next month") against the day of the utterance. English only."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta

from eunoe.workers.text.day_words import DAY_WORDS, WEEKDAYS, in_lower_case
from eunoe.workers.text.guarded import GuardedPattern

_NUMBERS = {
    word: n
    for n, word in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
}
_NUMBERS |= {"a": 1, "an": 1}

_DAY_WORD = "|".join(DAY_WORDS)
_DAY = "|".join(WEEKDAYS)
_COUNT = r"\d{1,2}|" + "|".join(_NUMBERS)
_RELATIVE = GuardedPattern(
    rf"\b(?:(?P<word>{_DAY_WORD})"
    rf"|(?P<way>last|next|this) (?P<unit>week|weekend|month|year|{_DAY})"
    rf"|(?P<count>{_COUNT}) (?P<many>day|week|month|year)s? ago)\b(?!['’]| ?[(\[][^)\]]{{0,40}}\d{{4}})",
    re.IGNORECASE,
)


def with_days(text: str, said: date, brackets: str = "()") -> str:
    """Put the day, week, month or year in brackets after each relative word of ``text``: ``yesterday (8 May 2023)``.

    ``said`` is the day of the utterance by its speaker's clock, ``brackets`` the opening and the closing one. A word
    that has a date in brackets, or that leads out of the calendar (years 1 to 9999), stays as it is.
    """
    return _RELATIVE.sub(lambda found: _dated(found, said, brackets), text)


def with_days_of(text: str, told: Iterable[tuple[str, date]]) -> str:
    """`with_days` of a text that repeats relative words of others, each with the day on which it was said.

    A word that was said on several days stays as it is.
    """
    days: dict[str, set[date]] = {}
    for other, said in told:
        for found in _RELATIVE.finditer(other):
            days.setdefault(in_lower_case(found.group()), set()).add(said)

    def dated(found: re.Match[str]) -> str:
        said = days.get(in_lower_case(found.group()), set())
        return _dated(found, min(said), "()") if len(said) == 1 else found.group()

    return _RELATIVE.sub(dated, text)


def has_days(text: str) -> bool:
    """Whether the text has a relative date."""
    return _RELATIVE.search(text) is not None


def _dated(found: re.Match[str], said: date, brackets: str) -> str:
    try:
        return f"{found.group()} {brackets[0]}{_meant(found, said)}{brackets[1]}"
    except (OverflowError, ValueError):
        return found.group()


def _meant(found: re.Match[str], said: date) -> str:
    parts = {name: in_lower_case(part) for name, part in found.groupdict().items() if part is not None}
    if "word" in parts:
        return write_day(said + timedelta(days=DAY_WORDS[parts["word"]]))
    if "count" in parts:
        count = parts["count"]
        return _BACK[parts["many"]](said, int(count) if count.isdecimal() else _NUMBERS[count])
    return _near(said, parts["unit"], {"last": -1, "this": 0, "next": 1}[parts["way"]])


def _near(said: date, unit: str, way: int) -> str:
    if unit in WEEKDAYS:
        return write_day(_weekday(said, WEEKDAYS.index(unit), way))
    if unit == "month":
        return _month(said, way)
    if unit == "year":
        return _year(said, way)
    what = "week" if unit == "week" else "weekend"
    return f"the {what} {('before', 'of', 'after')[way + 1]} {write_day(said)}"


def _weekday(said: date, wanted: int, way: int) -> date:
    """The nearest such weekday before ``said``, or the nearest one from ``said`` plus ``way`` on."""
    if way < 0:
        return said - timedelta(days=(said.weekday() - wanted - 1) % 7 + 1)
    return said + timedelta(days=(wanted - said.weekday() - way) % 7 + way)


def _year(said: date, way: int) -> str:
    return str(date(said.year + way, 1, 1).year)


def _month(said: date, way: int) -> str:
    months = said.year * 12 + said.month - 1 + way
    return f"{date(months // 12, months % 12 + 1, 1):%B %Y}"


_BACK: Mapping[str, Callable[[date, int], str]] = {
    "day": lambda said, count: write_day(said - timedelta(days=count)),
    "week": lambda said, count: f"about {write_day(said - timedelta(weeks=count))}",
    "month": lambda said, count: f"about {_month(said, -count)}",
    "year": lambda said, count: f"about {_year(said, -count)}",
}


def write_day(day: date) -> str:
    """Format a day: ``8 May 2023``."""
    return f"{day.day} {day:%B %Y}"
