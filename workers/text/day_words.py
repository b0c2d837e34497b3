"""Words for days, in English."""

from collections.abc import Mapping
from typing import Final

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY_WORDS: Final[Mapping[str, int]] = {
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "tomorrow": 1,
}
"""Words for a day → how many days it lies after the one on which they are said."""
_SAME_LETTERS: Final = str.maketrans("ıİſ", "iis")


def in_lower_case(word: str) -> str:
    """A word that matched without regard to case, in the lower case in which tables have it.

    There `re` takes a dotless i for an i, and a long s for an s, as in "sıx" and "Auguſt"; ``str.lower`` leaves them.
    """
    return word.translate(_SAME_LETTERS).lower()
