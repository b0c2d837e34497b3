"""The names of the asker's relatives, which lines about them have in place of "my sister". English only."""

import re
from collections.abc import Iterable, Set
from itertools import chain

from eunoe.workers.respond.offline.others import KIN
from eunoe.workers.respond.times import MONTHS
from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.day_words import WEEKDAYS
from eunoe.workers.text.terms import terms

_OWN_KIN = re.compile(r"\b(?:my|our) (?P<kin>\w{1,20}(?: \w{1,20})?)\b", re.IGNORECASE)
_KIN_NAMED = re.compile(
    rf"\b(?:[Mm]y|[Oo]ur) (?:[a-z-]{{1,20}} ){{0,2}}?(?P<kin>[a-z]{{2,20}}),? (?P<name>{CAPITAL}[^\W\d_]{{1,30}})"
)
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))


def own_kin_asked(question: str) -> frozenset[str]:
    """The stems of the asker's relatives that a question has: "sister" of "Where does my sister work?"."""
    return KIN.intersection(chain.from_iterable(terms(found["kin"]) for found in _OWN_KIN.finditer(question)))


def kin_named(texts: Iterable[str], kin: Set[str]) -> dict[str, frozenset[str]]:
    """The stem of each of the relatives ``kin`` → those of the names that one's ``texts`` give: "my sister Eline"."""
    found: dict[str, frozenset[str]] = {}
    for told in chain.from_iterable(map(_KIN_NAMED.finditer, texts)):
        names = frozenset(terms(told["name"]) if told["name"].casefold() not in _CALENDAR else ())
        found |= {stem: found.get(stem, frozenset()) | names for stem in kin & frozenset(terms(told["kin"]))}
    return found
