"""Tells by rules what kind of thing a remembered sentence says, and when it ends. English only."""

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta

from eunoe.schemas.profile import MemoryKind
from eunoe.workers.text.verbs import is_base, is_modal, is_past

_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_QUOTE = re.compile(r"^[^\"“]{1,120} said: [\"“]")
_PREFERENCE = re.compile(
    r"\b(?:likes|loves|hates|prefers|enjoys|dislikes|adores|favou?rites?|fond of|a fan of|allergic"
    r"|can(?:no|['’])t stand"
    r"|(?:I|we|they)(?: \w+ly| also| still| just| always)? (?:like|love|hate|prefer|enjoy|dislike|adore))\b",
    re.IGNORECASE,
)
_NEXT = (
    "week(?:end)?|month|year|spring|summer|autumn|fall|winter|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
)
_PLAN = re.compile(
    r"\b(?:will(?! (?:always|never|usually))|['’]ll|(?:is|are|am|['’]s|['’]re|['’]m) (?:going|planning|hoping|about) to"
    r"|plans|planning|intends|wants to|hopes to|(?:I|we|they) (?:want|hope|plan|intend|need|have) to"
    r"|(?:would|['’]d) like to|looks? forward|looking forward|aims to|has to|needs to|must"
    r"|(?:is|are|am|['’]s|['’]re|['’]m) (?:thinking (?:of|about)|considering|deciding|saving)|decide in"
    r"|tomorrow|tonight"
    rf"|next (?:{_NEXT}))\b",
    re.IGNORECASE,
)
_STATE_WORDS = frozenset(
    """
    is are has have does am isn't aren't hasn't haven't doesn't i'm i've we're we've they're they've can can't
    """.split()  # noqa: SIM905 - a table of words
)
_PERFECT = re.compile(
    r"\b(?:has|have|['’]s|['’]ve) (?:just |already |finally |recently )?(?!been\b)"
    r"(?:\w+ed|\w+en|gone|done|met|left|lost|won|sold|bought|made|found)\b"
)

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "few": 3, "couple of": 2}
_DAY, _MONTH = "|".join(_WEEKDAYS), "|".join(_MONTHS)
_WHEN = (
    rf"(?:(?P<word>today|tonight|tomorrow)|(?P<way>this|next)? ?(?P<weekday>{_DAY})"
    rf"|(?P<near>this|next) (?P<unit>week|weekend|month|year)|the end of (?:the|this) (?P<end>week|month|year)"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month>{_MONTH})|(?P<month2>{_MONTH}) (?P<day2>\d{{1,2}})\b"
    rf"|(?P<only>{_MONTH}))(?: (?P<year>\d{{4}}))?"
)
_UNTIL = re.compile(rf"\b(?:until|till|through|by) (?:the )?{_WHEN}", re.IGNORECASE)
_ON = re.compile(rf"\b(?:(?:on|this coming|in) )?{_WHEN}", re.IGNORECASE)
_FOR = re.compile(
    rf"\bfor the next (?:(?P<count>\d{{1,2}}|{'|'.join(_NUMBERS)}) )?(?P<unit>day|week|month|year)s?\b", re.IGNORECASE
)
_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}


def kind_of(text: str) -> MemoryKind:
    """The kind of what a sentence says: that of its main verb, where no word before it tells more.

    What somebody said word by word is read as they said it.
    """
    said = _QUOTE.sub("", text)
    kind, place = _by_verb(said, quoted=said != text)
    if (found := _PREFERENCE.search(said)) is not None and (kind is MemoryKind.STATE or found.start() < place):
        return MemoryKind.PREFERENCE
    if (found := _PLAN.search(said)) is not None and (kind is MemoryKind.STATE or found.start() < place):
        return MemoryKind.PLAN
    return kind


def _by_verb(said: str, *, quoted: bool) -> tuple[MemoryKind, int]:
    """Event or state by the first verb, and its place; an event without one, behind the end."""
    if (perfect := _PERFECT.search(said)) is not None:
        return MemoryKind.EVENT, perfect.start()
    before = ""
    for found in _WORD.finditer(said):
        word = found[0].lower().replace("’", "'")
        named = not before and not quoted  # the subject: a name
        spoken = before in ("i", "we", "they") and is_base(word)
        if not named and (word in _STATE_WORDS or spoken or _is_third_person(word)):
            return MemoryKind.STATE, found.start()
        if not named and is_past(word) and not is_modal(word):
            return MemoryKind.EVENT, found.start()
        before = word
    return MemoryKind.EVENT, len(said)


def _is_third_person(word: str) -> bool:
    """Whether a word is a known verb in the third person of the present."""
    if word.endswith("ies"):
        return is_base(f"{word[:-3]}y")
    return word.endswith("s") and (is_base(word[:-1]) or (word.endswith("es") and is_base(word[:-2])))


def end_of(text: str, kind: MemoryKind, said: datetime) -> datetime | None:
    """The end of what a sentence says, at the end of a day in UTC; `None` where the text names none.

    "Until", "by" and "for the next" end anything; of a plan, the day that it names. Days are resolved against the one
    on which it was ``said``, and never lie before it.
    """
    day = said.astimezone(UTC).date()
    try:
        if (found := _FOR.search(text)) is not None:
            count = (found["count"] or "one").lower()
            number = int(count) if count.isdecimal() else _NUMBERS[count]
            return _end_of_day(day + timedelta(days=number * _DAYS[found["unit"].lower()]))
        found = _UNTIL.search(text) or (_ON.search(text) if kind is MemoryKind.PLAN else None)
        last = None if found is None else _last_day(found, day)
    except (ValueError, OverflowError):  # 31 June; the end of the calendar
        return None
    return None if last is None or last < day else _end_of_day(last)


def _last_day(found: re.Match[str], day: date) -> date | None:
    parts = {name: part.lower() for name, part in found.groupdict().items() if part is not None}
    if "word" in parts:
        return day + timedelta(days=parts["word"] == "tomorrow")
    if "weekday" in parts:
        ahead = (_WEEKDAYS.index(parts["weekday"]) - day.weekday()) % 7
        return day + timedelta(days=ahead or (7 if parts.get("way") == "next" else 0))
    if "near" in parts:
        return _end_of_unit(day, parts["unit"], following=parts["near"] == "next")
    if "end" in parts:
        return _end_of_unit(day, parts["end"], following=False)
    return _named(parts, day)


def _end_of_unit(day: date, unit: str, *, following: bool) -> date:
    if unit in ("week", "weekend"):
        return day + timedelta(days=6 - day.weekday() + 7 * following)
    if unit == "year":
        return date(day.year + following, 12, 31)
    months = day.year * 12 + day.month - 1 + following
    return _end_of_month(months // 12, months % 12 + 1)


def _named(parts: dict[str, str], day: date) -> date:
    """The day or month of a name, in the year that it names, else the next such one."""
    month = _MONTHS.index(parts.get("month") or parts.get("month2") or parts["only"]) + 1
    number = parts.get("day") or parts.get("day2")
    for year in [int(parts["year"])] if "year" in parts else [day.year, day.year + 1]:
        last = _end_of_month(year, month) if number is None else date(year, month, int(number))
        if last >= day or "year" in parts:
            return last
    raise ValueError("no such day")


def _end_of_month(year: int, month: int) -> date:
    return date(year, month, monthrange(year, month)[1])


def _end_of_day(day: date) -> datetime:
    return datetime.combine(day, time(23, 59, 59), UTC)
