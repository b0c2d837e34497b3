"""The times that a question names, and how well a day fits them.

A time is a clue beside the topic: it raises what was said then, or what names it, and hides nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from eunoe.workers.text.bounds import with_blank_middle
from eunoe.workers.text.day_words import in_lower_case
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.past_periods import past_periods_in
from eunoe.workers.text.periods import Period, periods_in

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SHORT = {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
_MONTH = {name: number for number, name in enumerate(MONTHS, 1)} | _SHORT

_NAMED_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?P<{0}>[0-3]?\d)(?:st|nd|rd|th)?"
_DATE = GuardedPattern(
    rf"\b(?:{_DAY.format('before')}\s+(?:of\s+)?)?(?P<month>{_NAMED_MONTH})\b\.?"
    rf"(?:\s+{_DAY.format('after')}\b(?!\d))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d))?\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")

MAX_TIMES = 100
"""Times of one question that count, the first ones: each is compared with the day of every utterance."""
OTHER_YEAR = 0.7
"""Fit of a date without a year in another year than the one that is meant."""
SOON_AFTER = 0.5
"""Fit of the day after a period: what happened is often told a little later."""
WEEKEND = 2
"""Days of it."""
_MODAL = re.compile(r"\b[Mm]ay (?=(?:I|we|you|he|she|it|they|my|our|the)\b)")
"""Not the month."""
_TOLD = re.compile(r"\b(?:was|were|did|had|went|came|saw|met|took|got|made|ate|gave|left|\w{2,20}ed)\b", re.IGNORECASE)
"""Most statements of what has been."""


@dataclass(frozen=True, slots=True)
class TimeHint:
    """A time named in a question; `None` for parts it leaves open."""

    year: int | None
    month: int | None = None
    day: int | None = None


def read_times(text: str) -> list[TimeHint]:
    """The dates, months and years named in a text, dates first; "may" alone is a month only if capitalized."""
    text = _MODAL.sub("", text)
    found = [_time_of(match) for match in _DATE.finditer(text) if not _is_verb(match)]
    found += [
        TimeHint(int(match["year"]), int(match["month"]), int(match["day"]) if match["day"] else None)
        for match in _ISO.finditer(text)
    ]
    known = {time.year for time in found}
    return found + [TimeHint(int(year)) for year in _YEAR.findall(text) if int(year) not in known]


def _is_verb(match: re.Match[str]) -> bool:
    bare = match["before"] is None and match["after"] is None and match["year"] is None
    return match["month"] in {"may", "march", "mar", "sep", "dec", "jan", "oct", "nov"} and bare


def _time_of(match: re.Match[str]) -> TimeHint:
    day = match["before"] or match["after"]
    year = int(match["year"]) if match["year"] else None
    return TimeHint(year, _MONTH[in_lower_case(match["month"])], int(day) if day else None)


def read_days(text: str, asked: date, *, past: bool) -> tuple[Period, ...]:
    """The days and periods that a question of the day ``asked`` names, by words such as "yesterday" too, in order.

    ``past``: whether it asks for what has been. Then bare days and months ("on Sunday", "in March") are the nearest
    behind, else the nearest ahead. At most `MAX_TIMES`. The middle of a long text is not looked at.
    """
    bare = _MODAL.sub(lambda found: "-" * len(found.group()), with_blank_middle(text))
    behind, ahead = past_periods_in(bare, asked), periods_in(bare, asked)
    first, second = (behind, ahead) if past else (ahead, behind)
    found = list(islice(first, MAX_TIMES))
    found += [one for one in islice(second, MAX_TIMES) if not any(_overlap(one, other) for other in found)]
    return tuple(sorted(found, key=lambda one: one.start)[:MAX_TIMES])


def _overlap(one: Period, other: Period) -> bool:
    return one.start < other.end and other.start < one.end


def days_of_saying(days: Iterable[Period], asked: date, *, past: bool) -> tuple[Period, ...]:
    """Those of the days on which the answer may have been said: what lies ahead was spoken of before."""
    return tuple(one for one in days if one.last < asked or (past and one.first <= asked))


def without_days(text: str, days: Iterable[Period]) -> str:
    """The text of a question without the words for its days, whatever their form; one without other words stays."""
    parts, begin = [], 0
    for one in days:
        parts.append(text[begin : one.start])
        begin = one.end
    return " ".join(" ".join([*parts, text[begin:]]).split()) or text


def names_days(text: str, said: date, days: Sequence[Period]) -> bool:
    """Whether a text that was said on a day names one of the days, or a weekend that has a part in one of them."""
    if not days:
        return False
    return any(
        _is_within(one, asked) or (_overlaps_days(one, asked) and (one.last - one.first).days < WEEKEND)
        for one in read_days(text, said, past=_TOLD.search(text) is not None)
        for asked in days
    )


def _is_within(one: Period, other: Period) -> bool:
    return other.first <= one.first and one.last <= other.last


def _overlaps_days(one: Period, other: Period) -> bool:
    return one.first <= other.last and other.first <= one.last


def is_among(days: Iterable[Period], day: date) -> bool:
    """Whether a day is one of the days."""
    return any(one.first <= day <= one.last for one in days)


def time_fit(times: Sequence[TimeHint], day: date, said: Sequence[Period] = ()) -> float:
    """Similarity of a day to the named times, from 0 to 1; 0 if none is named.

    An event is mentioned on its day or soon after, so later days count longer than earlier ones. ``said``: the days
    that the words for times mean; then a date without a year fits less well in other years.
    """
    named = max((_fit(time, day) * (OTHER_YEAR if said and time.year is None else 1.0) for time in times), default=0.0)
    return max([named, *(_nearness(one, day) for one in said)])


def _nearness(period: Period, day: date) -> float:
    if day <= period.last:
        return float(period.first <= day)
    return SOON_AFTER * max(0.0, 1 - (day - period.last).days / 14)


def _fit(time: TimeHint, day: date) -> float:
    if time.month is None or not 1 <= time.month <= 12:
        return 0.5 * (time.year == day.year)
    year = time.year or day.year
    if time.day is None:
        months = 12 * (day.year - year) + day.month - time.month
        return 1.0 if months == 0 else 0.4 if months == 1 and day.day <= 10 else 0.0
    try:
        days = (day - date(year, time.month, time.day)).days
    except ValueError:
        return 0.0
    return max(0.0, 1 - days / 14) if days >= 0 else max(0.0, 1 + days / 4)
