"""Finds days and periods in a text ("Friday", "next week", "12 May", "the next two weeks"). English only.

Words are resolved against the day on which they were said. Bare days and months are the nearest from that day on.
"""

import calendar
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from eunoe.workers.text.day_words import DAY_WORDS, WEEKDAYS, in_lower_case

_TO_COME = [word for word, days in DAY_WORDS.items() if days >= 0]
MONTHS = tuple(calendar.month_name[1:])
COUNTS: Mapping[str, int] = {
    word: n
    for n, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)  # noqa: SIM905
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3, "several": 5}
_COUNT = r"\d{1,3}|" + "|".join(sorted(COUNTS, key=len, reverse=True))
_UNIT = r"(?:day|week|month|year)"
_MONTH = "(?-i:" + "|".join(MONTHS) + ")"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_PERIOD = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d\d-\d\d)"
    rf"|(?P<word>{'|'.join(_TO_COME)})"
    rf"|(?:(?P<count>{_COUNT}) more|(?:(?:the )?(?:next|coming)|another) (?P<counted>{_COUNT})) (?P<many>{_UNIT})s?"
    rf"|in (?P<ahead>{_COUNT}) (?P<away>{_UNIT})s?"
    rf"|(?P<end>(?:the )?(?:end|rest) of )?(?:the )?(?P<way>this|next|coming|the) (?P<unit>week|weekend|month|year)"
    rf"|(?P<next>(?:this|next|coming) )?(?P<weekday>{'|'.join(WEEKDAYS)})"
    rf"|(?P<day>{_DAY})(?: of)? (?P<month>{_MONTH})(?:,? (?P<year>\d{{4}}))?"
    rf"|(?P<month_>{_MONTH}) (?P<day_>{_DAY})(?:,? (?P<year_>\d{{4}}))?"
    rf"|(?P<end_>(?:the )?end of )?(?:this |next )?(?P<whole>{_MONTH})(?: (?P<year__>\d{{4}}))?)(?!['’\w-])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Period:
    """Days that a text names, with the place of the words in it."""

    start: int
    end: int
    """Behind the last character."""
    first: date
    last: date
    """The last day of it; the first one too where it is a day."""
    is_end: bool = False
    """Whether the words name its end: "the end of May"."""


def periods_in(text: str, said: date) -> Iterator[Period]:
    """The periods that a text names, in order; ``said`` is the day of the utterance by its speaker's clock.

    Days that are in no calendar, and years beyond 9999, are none.
    """
    for found in _PERIOD.finditer(text):
        try:
            days = _days(found, said)
        except (OverflowError, ValueError):  # 30 February, or a day beyond the calendar
            continue
        if days is not None:
            ends = found["end"] is not None or found["end_"] is not None
            yield Period(found.start(), found.end(), *days, is_end=ends)


def _days(found: re.Match[str], said: date) -> tuple[date, date] | None:
    if found["iso"]:
        return _one(date.fromisoformat(found["iso"]))
    if found["word"]:
        return _one(said + timedelta(days=DAY_WORDS[in_lower_case(found["word"])]))
    if found["many"]:
        return said, _ahead(said, found["count"] or found["counted"], found["many"])
    if found["away"]:
        return _one(_ahead(said, found["ahead"], found["away"]))
    if found["unit"]:
        return _unit(
            said, in_lower_case(found["way"]), in_lower_case(found["unit"]), named_end=found["end"] is not None
        )
    if found["weekday"]:
        return _one(_weekday(said, in_lower_case(found["weekday"]), in_lower_case(found["next"] or "")))
    if found["whole"]:
        return _month(said, found["whole"], found["year__"])
    return _one(
        _day(said, found["day"] or found["day_"], found["month"] or found["month_"], found["year"] or found["year_"])
    )


def _one(day: date) -> tuple[date, date]:
    return day, day


def _ahead(said: date, count: str, unit: str) -> date:
    number = int(count) if count.isdecimal() else COUNTS[in_lower_case(count)]
    match in_lower_case(unit):
        case "day":
            return said + timedelta(days=number)
        case "week":
            return said + timedelta(weeks=number)
        case "month":
            return months_later(said, number)
    return months_later(said, 12 * number)


def months_later(said: date, months: int) -> date:
    """The same day so many months later, or the last one of a shorter month."""
    year, month = divmod(said.year * 12 + said.month - 1 + months, 12)
    return date(year, month + 1, min(said.day, calendar.monthrange(year, month + 1)[1]))


def _unit(said: date, way: str, unit: str, *, named_end: bool) -> tuple[date, date] | None:
    """A week, weekend, month or year; "the week" alone names one only in "the end of the week"."""
    if way == "the" and not named_end:
        return None
    step = int(way in ("next", "coming"))
    if unit in ("week", "weekend"):
        monday = said - timedelta(days=said.weekday()) + timedelta(weeks=step)
        return monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6)
    if unit == "month":
        first = months_later(said.replace(day=1), step)
        return first, end_of_month(first)
    return date(said.year + step, 1, 1), date(said.year + step, 12, 31)


def _weekday(said: date, name: str, way: str) -> date:
    """The nearest such day from ``said`` on; from the day after it where it is called the next one."""
    later = int(bool(way) and not way.startswith("this"))
    return said + timedelta(days=(WEEKDAYS.index(name) - said.weekday() - later) % 7 + later)


def _month(said: date, name: str, year: str | None) -> tuple[date, date]:
    number = MONTHS.index(name) + 1
    first = date(int(year) if year else said.year + int(number < said.month), number, 1)
    return first, end_of_month(first)


def end_of_month(first: date) -> date:
    """The last day of the month of a day."""
    return first.replace(day=calendar.monthrange(first.year, first.month)[1])


def _day(said: date, day: str, month: str, year: str | None) -> date:
    number, place = int(day.rstrip("stndrh")), MONTHS.index(month) + 1
    if year:
        return date(int(year), place, number)
    found = date(said.year, place, number)
    return found if found >= said else date(said.year + 1, place, number)
