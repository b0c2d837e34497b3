"""Detects English, the only language of this package's tables."""

import re
from collections.abc import Iterable

_COMMONEST = frozenset("the a i you to is it and of in that do for my have what are was your".split())  # noqa: SIM905
_ENGLISH_ONLY = frozenset("the and with has his their she they from who which when because would".split())  # noqa: SIM905
_WORD = re.compile(r"[^\W\d_]+")
_LEAST = 0.12


def is_english(texts: Iterable[str]) -> bool:
    """Whether the commonest English words are at least 12 % of all words of ``texts``."""
    words = [word.lower() for text in texts for word in _WORD.findall(text)]
    return sum(word in _COMMONEST for word in words) >= _LEAST * max(1, len(words))


def has_english(text: str) -> bool:
    """Whether a text has a word that is only English: "a", "do" and "in" are words of its neighbours too."""
    return not _ENGLISH_ONLY.isdisjoint(word.lower() for word in _WORD.findall(text))
