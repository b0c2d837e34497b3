"""Reads hints from a question beside its topic: speakers, times, and the kind of answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from eunoe.workers.respond.breadth import Breadth, read_breadth
from eunoe.workers.text.terms import terms

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
_DATE = re.compile(
    rf"\b(?:{_DAY.format('before')}\s+(?:of\s+)?)?(?P<month>{_NAMED_MONTH})\b\.?"
    rf"(?:\s+{_DAY.format('after')}\b(?!\d))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d))?\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")

_WHEN = re.compile(
    r"\b(?:when|what (?:date|day|time|month|year)|how long|since|until|wann|seit|bis wann|cuándo)\b"
    r"|언제|什么时候|几时|いつ",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"\b(?:how (?:many|much|old|often|long|far|tall|big)|wie (?:viele?|alt|oft|lange|weit|gro(?:ß|ss))|cuánt[oa]s?)\b"
    r"|몇|얼마나|多少|几个|いくつ|何人",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:now|nowadays|currently|these days|at the moment|at present|presently|jetzt|derzeit|momentan|ahora)\b"
    r"|지금|요즘|现在|目前|今は",
    re.IGNORECASE,
)
_HELPER = re.compile(
    r"(?:\b(?:is|are|am|isn['’]t|aren['’]t|does|do|doesn['’]t|don['’]t|(?P<then>did|didn['’]t|was|were|wasn['’]t|weren['’]t"
    r"|had|has|have|will|would|can|could|should|shall|might|must))|\b(?:what|where|who|how|which)['’]s)\b",
    re.IGNORECASE,
)
"""The finite verb of most questions."""
_PAST = re.compile(
    r"\b(?:before|previously|used to|formerly|earlier|in the past|back then|originally|at first|früher|vorher|damals)\b"
    r"|예전|以前|之前",
    re.IGNORECASE,
)
_REPLIES = re.compile(
    r"\b(?:(?:did|had|have|has) you (?:ever |also |already )?(?:say|said|tell|told|suggest(?:ed)?|recommend(?:ed)?"
    r"|mention(?:ed)?|proposed?|give|given|write|written|list(?:ed)?|explain(?:ed)?|promised?|call(?:ed)?|mean|advised?)"
    r"|you (?:ever |just |also |already )?(?:said|told|suggested|recommended|mentioned|proposed|gave|wrote|listed"
    r"|explained|promised|called|meant|advised)"
    r"|your (?:last |own |earlier |previous )?(?:advice|suggestions?|recommendations?|answers?|reply|replies|lists?"
    r"|words)|empfohlen|vorgeschlagen)\b|你说|你建议|你推荐|추천",
    re.IGNORECASE,
)
MAX_TIMES = 100
"""Times of one question that count, the first ones: each is compared with the day of every utterance."""
_FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|myself|ich|mir|mich|mein(?:e[mnrs]?)?|yo)\b|내가|나는|나의|제가|저는|我|私|僕", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class TimeHint:
    """A time named in a question; `None` for parts it leaves open."""

    year: int | None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True)
class QuestionHints:
    """The hints in a question."""

    speakers: frozenset[str]
    """Participants it asks about; empty if it names none."""
    times: tuple[TimeHint, ...]
    when: bool
    count: bool
    present: bool
    """Whether it asks for the present state, and says so ("now")."""
    past: bool
    """Whether it asks for a past state."""
    replies: bool
    """Whether it asks for what the one spoken to said."""
    named: frozenset[str] = frozenset()
    """Participants it names."""
    asker: str = ""
    """The participant who asks; empty if unknown."""
    is_own: bool = False
    """Whether it is in the first person."""
    breadth: Breadth = Breadth.ONE
    """Whether it asks for one thing, for all events of a kind, or for a summary."""
    holds: bool = False
    """Whether it asks in the present tense, and so for what holds."""


def read_question(text: str, speakers: Sequence[str], asker: str = "") -> QuestionHints:
    """Read the hints of a question; one in the first person is about ``asker``."""
    words = {word.casefold() for word in _WORD.findall(text)}
    named = {name for name in speakers if any(part.casefold() in words for part in _WORD.findall(name))}
    is_own = _FIRST_PERSON.search(text) is not None
    about = named | ({asker} if asker in speakers and is_own else set())
    past, when = _PAST.search(text) is not None, _WHEN.search(text) is not None
    return QuestionHints(
        speakers=frozenset(about),
        times=tuple(read_times(text)[:MAX_TIMES]),
        when=when,
        count=_COUNT.search(text) is not None,
        present=_PRESENT.search(text) is not None and not past,
        past=past,
        replies=_REPLIES.search(text) is not None,
        named=frozenset(named),
        asker=asker if asker in speakers else "",
        is_own=is_own,
        breadth=read_breadth(text),
        holds=not past and not when and _in_present(text),
    )


def _in_present(text: str) -> bool:
    """Whether the first helping verb of a question is one of the present."""
    found = _HELPER.search(text)
    return found is not None and found["then"] is None


def without_asking(text: str) -> str:
    """The question without the words that ask for what the one spoken to said; a text without another word stays."""
    topic = " ".join(_REPLIES.sub(" ", text).split())
    return topic if terms(topic) else text


def read_times(text: str) -> list[TimeHint]:
    """The dates, months and years named in a text, dates first; "may" alone is a month only if capitalized."""
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
    return TimeHint(year, _MONTH[match["month"].lower()], int(day) if day else None)


def time_fit(times: Sequence[TimeHint], day: date) -> float:
    """Similarity of a day to the named times, from 0 to 1; 0 if none is named.

    An event is mentioned on its day or soon after, so later days count longer than earlier ones.
    """
    return max((_fit(time, day) for time in times), default=0.0)


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
