"""Corrections of what was said before: "it was the 14th, not the 15th". English only."""

import re

from eunoe.workers.text.capitals import CAPITAL
from eunoe.workers.text.guarded import GuardedPattern

_TOLD = r"[^\s,;!?]{1,40}"
_CORRECTION = GuardedPattern(
    rf"(?<!\S){_TOLD},? (?:and )?not (?:(?:the|an?|on|at|in|for|to|from|with|by|about) ){{0,2}}(?P<wrong>{_TOLD})",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"\b(?:actually|I meant?|sorry|correction|misread|misspoke|mistake\w{0,2}|mixed|wrong)\b|^no\b",
    re.IGNORECASE,
)
"""Words by which a speaker takes something back; without one only a figure is: "it was Tom, not Ann" may be news."""
_ANNOUNCED = re.compile(
    r"\W{0,3}(?:correction|(?:oops|sorry|no|wait|actually)?\W{0,3}I meant|scratch that|typo)\b|\*\w[^*]{0,60}\Z",
    re.IGNORECASE,
)
"""The beginning of a line that corrects the one before it, whatever of that is wrong."""
_SORRY = re.compile(
    r"\W{0,3}(?:(?:oh|oops|ah|sorry|no(?=,| wait)|wait|hold on)\b\W{1,3}){1,3}"
    r"(?:(?:it|that)(?:['’]s| is| was| should be)|make (?:it|that)|"
    r"(?:(?:on|at|in|the) ){0,2}(?:\w{3,9} )?\d[\d:./]{0,12}\w{0,2}(?: \w{1,10}){0,3}(?=\W{0,3}\Z|[.,;!]))",
    re.IGNORECASE,
)
"""The same, where both tell a figure."""
_RIGHT_AWAY = re.compile(
    rf"\W{{0,3}}(?:(?:oh|oops|ah|sorry|no|wait|actually)\b\W{{1,3}}){{1,4}}(?:(?:on|at|in|the|to|with) ){{0,2}}"
    rf"{CAPITAL}[\w'’-]{{1,30}}(?: {CAPITAL}[\w'’-]{{1,30}})?\W{{0,3}}\Z",
)
"""A name alone after a "no" or "sorry", in the line of the name that it takes the place of: "No, Thursday."."""
_CAPITALIZED = re.compile(rf"(?<=\w ){CAPITAL}")
_FIGURE = re.compile(r"\b\d")
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")
_LEAST_CHARS = 2


def corrects(later: str, earlier: str) -> bool:
    """Whether a text takes back a figure or a name of an earlier one of the same speaker."""
    return not taken_back(later).isdisjoint(words_of(earlier))


def announces_correction(later: str, earlier: str) -> bool:
    """Whether a line corrects its speaker's line right before it, as it says itself: "Sorry, it's May 4"."""
    if _ANNOUNCED.match(later):
        return True
    return _SORRY.match(later) is not None and has_figure(later) and has_figure(earlier)


def corrects_within(later: str, earlier: str) -> bool:
    """Whether a sentence corrects the one right before it in its line: "June 15. No, sorry, July 15."."""
    if _RIGHT_AWAY.match(later[:1].lower() + later[1:]) is not None:
        return _CAPITALIZED.search(earlier) is not None
    return _SORRY.match(later) is not None and has_figure(later) and has_figure(earlier)


def has_figure(text: str) -> bool:
    """Whether a text has a number in digits."""
    return _FIGURE.search(text) is not None


def taken_back(text: str) -> frozenset[str]:
    """The figures and names that a text says are wrong, in lower case; empty if it corrects nothing."""
    words = [_WORD.search(found["wrong"]) for found in _CORRECTION.finditer(text)]
    is_sure = bool(words) and _SIGN.search(text) is not None
    return frozenset(word.group().casefold() for word in words if word is not None and _is_told(word.group(), is_sure))


def words_of(text: str) -> frozenset[str]:
    """The words of a text in lower case, as `taken_back` has them."""
    return frozenset(map(str.casefold, _WORD.findall(text)))


def _is_told(word: str, is_sure: bool) -> bool:
    return len(word) >= _LEAST_CHARS and (any(map(str.isdecimal, word)) or (is_sure and word[0].isupper()))
