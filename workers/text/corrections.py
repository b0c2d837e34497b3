"""Corrections of what was said before: "it was the 14th, not the 15th". English only."""

import re

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
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")
_LEAST_CHARS = 2


def corrects(later: str, earlier: str) -> bool:
    """Whether a text takes back a figure or a name of an earlier one of the same speaker."""
    return not taken_back(later).isdisjoint(words_of(earlier))


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
