"""Figures in sentences: amounts of money, times, weights and lengths. English only."""

import re
from collections.abc import Callable

from eunoe.workers.text.vital import DRUG
from eunoe.workers.text.words import NUMBER_WORDS

_FIGURE = re.compile(r"\b\d")
_COUNTED = re.compile(
    rf"\b(?:\d|(?:{'|'.join(sorted(NUMBER_WORDS))}|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b)",
    re.IGNORECASE,
)
_UNITS = re.compile(
    r"(?P<money>[€$£] ?\d|\d ?k?(?:[€$£]| (?:euros?|dollars?|pounds?|bucks)\b))|"
    r"(?P<time>\d ?(?:min(?:ute)?s?|h|hours?|days?|weeks?|months?)\b)|(?P<weight>\d ?(?:kg|kilos?|lbs?|g|mg|mcg)\b)|"
    r"(?P<length>\d ?(?:km|k|miles?|m|cm|met(?:er|re)s?)\b)",
    re.IGNORECASE,
)
"""Figures with a unit: 45 minutes are no other value of 11 euros."""
_MONEY = re.compile(
    r"[€$£] ?\d|\d ?k?(?:[€$£]| ?(?:euros?|dollars?|pounds?|bucks|quid|grand|pence|p)\b)", re.IGNORECASE
)
_DRUG = re.compile(rf"\b{DRUG}\b", re.IGNORECASE)


def tells_money(text: str) -> bool:
    """Whether a text has an amount of money."""
    return _MONEY.search(text) is not None


def figures_like(said: str, *, count: bool) -> Callable[[str], bool]:
    """The test for sentences that tell another figure of what is ``said``: of the same kind, where both say which.

    ``count``: whether numbers in words are figures, too.
    """
    figure = _COUNTED if count else _FIGURE
    has_figure, kinds = figure.search(said) is not None, _kinds_of(said)

    def tells(sentence: str) -> bool:
        others = _kinds_of(sentence)
        return (
            has_figure and figure.search(sentence) is not None and not (kinds and others and kinds.isdisjoint(others))
        )

    return tells


def _kinds_of(sentence: str) -> frozenset[str]:
    """The kinds of the figures in a sentence that have a unit: money, time, weight, length."""
    return frozenset(str(found.lastgroup) for found in _UNITS.finditer(sentence))


def tells_alike(said: str, sentence: str) -> bool:
    """Whether a sentence tells a figure with a unit of a kind that is ``said``, too, and of no other medicine."""
    return not _kinds_of(said).isdisjoint(_kinds_of(sentence)) and set(_DRUG.findall(sentence)) <= set(
        _DRUG.findall(said)
    )
