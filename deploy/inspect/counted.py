"""Counts in words for people: ``1 session``, ``2 sessions``."""

from collections.abc import Collection
from typing import Final

_VOWELS: Final = "aeiou"


def counted(number: float, noun: str) -> str:
    """A number with its noun, given in the singular; the last word takes the plural where the number is not 1.

    A fraction is shown in six digits at most, a whole number in full.

    For nouns with a regular plural: ``memory`` becomes ``memories``, ``dead letter`` becomes ``dead letters``.
    """
    shown = number if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else _plural(noun)}"


def named_there(names: Collection[str]) -> str:
    """The names that there are, behind one that there is not: ``there is only v1``, ``there are v1, v2``."""
    return f"there {'is only' if len(names) == 1 else 'are'} {', '.join(names)}"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in _VOWELS else f"{noun}s"
