"""Corrections of what was said before: "it was the 14th, not the 15th". English only."""

import re
from collections.abc import Iterator

_TOLD = r"[^\s,;!?]{1,40}"
_CORRECTION = re.compile(
    rf"(?<!\S){_TOLD},? (?:and )?not (?:(?:the|an?|on|at|in|for|to|from|with|by|about) ){{0,2}}(?P<wrong>{_TOLD})",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"\b(?:actually|I meant?|sorry|correction|misread|misspoke|mistake\w{0,2}|mixed|wrong|it was|it['’]s|it is)\b|"
    r"^no\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:[:.,'’-]\w+)*")
_LEAST_CHARS = 2


def is_correction(text: str) -> bool:
    """Whether a text takes back a figure or a name, and gives another in its place."""
    return next(_taken_back(text), None) is not None


def corrects(later: str, earlier: str) -> bool:
    """Whether a text takes back a figure or a name of an earlier one of the same speaker."""
    wrong = set(_taken_back(later))
    return bool(wrong) and not wrong.isdisjoint(map(str.casefold, _WORD.findall(earlier)))


def _taken_back(text: str) -> Iterator[str]:
    """Yield the figures and names that a text says are wrong, in lower case."""
    for found in _CORRECTION.finditer(text) if _SIGN.search(text) else ():
        word = _WORD.search(found["wrong"])
        if word is not None and _is_told(word.group()):
            yield word.group().casefold()


def _is_told(word: str) -> bool:
    return len(word) >= _LEAST_CHARS and (word[0].isupper() or any(map(str.isdecimal, word)))
