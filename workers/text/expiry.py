"""The end of what a sentence says, where it names one: "until Friday", "for the next two weeks". English only."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice

from eunoe.schemas.memory import MemoryKind
from eunoe.workers.text.bounds import MAX_SENTENCES, without_middle
from eunoe.workers.text.kinds import is_past_form
from eunoe.workers.text.periods import Period, periods_in
from eunoe.workers.text.sentences import sentence_spans

_UNTIL = re.compile(
    r"\b(?P<how>until|till|through|thru|up to)(?: (?:about|around|early|late|mid))? (?:the )?$", re.IGNORECASE
)
_AT_LEAST = re.compile(
    r"\b(?:at least|not|maybe|or so|since|from|starting|beginning|as of|after|before) \w*\s*$", re.IGNORECASE
)
_FOR = re.compile(r"\b(?:for|over|during|within|all) (?:the )?$", re.IGNORECASE)
_BEHIND = re.compile(
    r"\b(?:since|from|starting|start|beginning|begin|as of|after|before|of|last|every|on or after) $", re.IGNORECASE
)
_BEGINS = re.compile(
    r"\b(?:start|begin|mov(?:e|ing)|join|adopt|marry|married|wed|buy|becom|retire|quit|quitting|switch|enrol|adjust|"
    r"get(?:ting)? (?:an?|my|his|her|their|our|rid)|giv(?:e|ing) up|back to|return|open|launch|leav(?:e|ing)|stop)\w*",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:am|is|are|isn['’]t|aren['’]t|will|won['’]t|has|have|can|can['’]t|cannot|must|may|might|should|do|does|"
    r"don['’]t|doesn['’]t)\b|['’](?:m|s|re|ll|ve)\b",
    re.IGNORECASE,
)
_PREGNANT = re.compile(
    r"(?:\b(?:am|is|are)|['’](?:m|s|re)) (?:(?:now|also|really|finally|again|\d{1,2} (?:weeks|months)) ){0,2}"
    r"(?:pregnant|"
    r"expecting (?:(?:an?|another|our|my|her|their) (?:\w+ )?(?:baby|child|son|daughter|boy|girl)|twins))\b",
    re.IGNORECASE,
)
_PREGNANCY = timedelta(weeks=40)
"""A pregnancy that somebody tells of is over after it, whether or not they tell of the birth."""
_MAY_END = re.compile(
    r"\b(?:until|till?|bis|hasta|jusqu\w*|fino|tot|through|thru|up to|by|due|deadline|"
    r"temporar\w*|last(?:s|ing)|leav(?:e|es|ing)|back|over|only|"
    r"this (?:week|weekend|month|year|term|semester|season|spring|summer|autumn|fall|winter)|"
    r"(?:end|expire|finish|return|stop|clos)(?:e?s|ing)?|"
    r"for (?:(?:the|only|just|about|another|next|first|coming|a|an|some|few|\w{1,9}) ){1,4}"
    r"(?:day|night|week|weekend|fortnight|month|year|term|semester|season|summer|winter|while)s?)\b",
    re.IGNORECASE,
)
_LOOK_BACK = 200
"""Characters before a period that say what it is."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")


def end_of_day(last: date, clock: tzinfo | None = UTC) -> datetime:
    """The first instant after a day by a clock. Raises ``OverflowError`` for the last day of the calendar."""
    return datetime.combine(last + timedelta(days=1), time(), clock)


def may_end(text: str) -> bool:
    """Whether a text has a word of an end ("until", "for two weeks", "expires"); an end without one is made up.

    "Until" is known in neighbours of English, too: a short sentence of theirs may pass for English.
    """
    return _MAY_END.search(text) is not None


def expiry_of(text: str, at: datetime, kind: MemoryKind) -> datetime | None:
    """The time from which a text said ``at`` no longer holds; `None` unless each sentence names an end after that.

    A sentence ends with the day that it names: after "until" that day, or the day before a week, month or year begins;
    after "for the next two weeks" their last day; of a plan, the day that it is for, unless something begins then.
    Days are those of the clock of ``at``.
    """
    if kind is MemoryKind.EVENT:
        return None
    said, whole = at.date(), " ".join(text.split())
    days: list[date] = []
    for start, end in islice(sentence_spans(whole), MAX_SENTENCES):
        last = _end_of(without_middle(whole[start:end]), said, kind)
        if last is None:
            return None
        days.append(last)
    try:
        ends = end_of_day(max(days), at.tzinfo) if days else None
    except OverflowError:
        return None
    return ends if ends is not None and ends > at else None


def end_of_pregnancy(text: str, at: datetime) -> datetime | None:
    """The latest time of a pregnancy that a text says ``at`` goes on; `None` where it tells of none."""
    found = _PREGNANT.search(text)
    if found is None or _is_past(text[: found.start()]):
        return None
    try:
        return end_of_day(at.date() + _PREGNANCY, at.tzinfo)
    except OverflowError:
        return None


def _end_of(sentence: str, said: date, kind: MemoryKind) -> date | None:
    """The last day of what a sentence says; `None` where it names none."""
    found = (_last_day(sentence, period, kind) for period in periods_in(sentence, said))
    return max((last for last in found if last is not None), default=None)


def _last_day(text: str, period: Period, kind: MemoryKind) -> date | None:
    """The last day of what the sentence says, by one of its periods; `None` where that is no end."""
    before = text[max(0, period.start - _LOOK_BACK) : period.start]
    until = _UNTIL.search(before)
    if until is not None:
        if _AT_LEAST.search(before[: until.start()]) or _is_past(before):
            return None
        exclusive = until["how"].lower() in ("until", "till") and not period.is_end and period.first != period.last
        return period.first - timedelta(days=1) if exclusive else period.last
    if _FOR.search(before) and period.first != period.last:
        return None if _is_past(before) else period.last
    if kind is MemoryKind.PLAN and not _BEHIND.search(before) and not _BEGINS.search(before):
        return period.last
    return None


def _is_past(before: str) -> bool:
    """Whether the sentence is told in the past up to here."""
    words = (word.lower().replace("’", "'") for word in _WORD.findall(before))
    return any(map(is_past_form, words)) and not _PRESENT.search(before)
