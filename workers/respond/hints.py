"""Reads hints from a question beside its topic: speakers, times, and the kind of answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from eunoe.workers.respond.breadth import Breadth, read_breadth
from eunoe.workers.respond.times import MAX_TIMES, TimeHint, days_of_saying, read_days, read_times
from eunoe.workers.text.guarded import GuardedPattern
from eunoe.workers.text.periods import Period
from eunoe.workers.text.terms import terms

_WHEN = GuardedPattern(
    r"\b(?:when|what (?:date|day|time|month|year)|how long|since|until|wann|seit|bis wann|cuándo)\b"
    r"|언제|什么时候|几时|いつ",
    re.IGNORECASE,
)
_COUNT = GuardedPattern(
    r"\b(?:how (?:many|much|old|often|long|far|tall|big)|wie (?:viele?|alt|oft|lange|weit|gro(?:ß|ss))|cuánt[oa]s?)\b"
    r"|몇|얼마나|多少|几个|いくつ|何人",
    re.IGNORECASE,
)
_PRESENT = GuardedPattern(
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
_WHETHER = re.compile(
    r"\W{0,3}(?:(?:and|so|but|well|hey|hi|ok|okay|please|tell me),? ){0,2}"
    r"(?:(?:did|do|does|was|were|am|is|are|have|has|had|will)(?:n['’]t)?\b|whether\b)",
    re.IGNORECASE,
)
_PRICE = GuardedPattern(r"\bhow much (?:is|are|was|were|did|does|do|will)\b|\b(?:price|cost|fees?)\b", re.IGNORECASE)
_WHO_DOES = GuardedPattern(r"\bwho (?:still |now |else )?(?!is\b|was\b|has\b)\w{2,20}s\b", re.IGNORECASE)
"""A question of who does something now: "Who lives with us?"."""
_HAPPENED = GuardedPattern(
    r"\bwhat (?:(?:has |had )?(?:happened|become)|became|went wrong|is (?:the matter|wrong|up)) (?:to|of|with)\b|"
    r"\bwhat['’]s (?:happened|become|the matter|wrong|up) (?:to|of|with)\b",
    re.IGNORECASE,
)
_PAST = GuardedPattern(
    r"\b(?:before|previously|used to|formerly|earlier|in the past|back then|originally|at first|früher|vorher|damals)\b"
    r"|예전|以前|之前",
    re.IGNORECASE,
)
_REPLIES = GuardedPattern(
    r"\b(?:(?:did|had|have|has) you (?:ever |also |already )?(?:say|said|tell|told|suggest(?:ed)?|recommend(?:ed)?"
    r"|mention(?:ed)?|proposed?|give|given|write|written|list(?:ed)?|explain(?:ed)?|promised?|call(?:ed)?|mean|advised?)"
    r"|you (?:ever |just |also |already )?(?:said|told|suggested|recommended|mentioned|proposed|gave|wrote|listed"
    r"|explained|promised|called|meant|advised)"
    r"|your (?:last |own |earlier |previous )?(?:advice|suggestions?|recommendations?|answers?|reply|replies|lists?"
    r"|words)|empfohlen|vorgeschlagen)\b|你说|你建议|你推荐|추천",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|myself|ich|mir|mich|mein(?:e[mnrs]?)?|yo)\b|내가|나는|나의|제가|저는|我|私|僕", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+")


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
    """Whether it asks in the present tense, and so for what holds; not for when."""
    of_present: bool = False
    """Whether it asks in the present tense: for what holds, or when something is."""
    ends: bool = False
    """Whether its answer is told with the end of what that names: it is in the present tense, or asks whether."""
    whether: bool = False
    """Whether it asks if something is or was so."""
    price: bool = False
    """Whether it asks what something costs."""
    happened: bool = False
    """Whether it asks what has become of somebody or something."""
    days: tuple[Period, ...] = ()
    """The days and periods that it names, by words such as "yesterday" too; none where its own day is unknown."""
    said: tuple[Period, ...] = ()
    """Those of them on which the answer may have been said."""


def read_question(text: str, speakers: Sequence[str], asker: str = "", asked: date | None = None) -> QuestionHints:
    """Read the hints of a question; one in the first person is about ``asker``.

    ``asked`` is its day by the asker's clock, against which "yesterday" is resolved.
    """
    words = {word.casefold() for word in _WORD.findall(text)}
    named = {name for name in speakers if any(part.casefold() in words for part in _WORD.findall(name))}
    is_own = _FIRST_PERSON.search(text) is not None
    about = named | ({asker} if asker in speakers and is_own else set())
    past, when = _PAST.search(text) is not None, _WHEN.search(text) is not None
    helper = _HELPER.search(text)
    present = _is_of_present(helper, text)
    was = past or (_is_of_past(helper) and not present)
    days = () if asked is None else read_days(text, asked, past=was)
    whether = _WHETHER.match(text) is not None
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
        holds=not past and not when and present,
        of_present=not past and (present or _is_whether_one_can(helper)),
        ends=not past and not when and (present or whether),
        whether=whether,
        price=_PRICE.search(text) is not None,
        happened=_HAPPENED.search(text) is not None,
        days=days,
        said=() if asked is None else days_of_saying(days, asked, past=was),
    )


def _is_of_past(helper: re.Match[str] | None) -> bool:
    """Whether a question with this first helping verb, or without one ("What happened …?"), asks for what has been."""
    return helper is None or helper.group().lower().startswith(("did", "was", "were", "had", "has", "have"))


def _is_of_present(helper: re.Match[str] | None, text: str) -> bool:
    return _WHO_DOES.search(text) is not None if helper is None else helper["then"] is None


def _is_whether_one_can(helper: re.Match[str] | None) -> bool:
    return helper is not None and helper.group().lower() in ("can", "may", "must")


def without_asking(text: str) -> str:
    """The question without the words that ask for what the one spoken to said; a text without another word stays."""
    topic = " ".join(_REPLIES.sub(" ", text).split())
    return topic if terms(topic) else text
