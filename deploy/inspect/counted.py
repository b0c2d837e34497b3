"""Counts in words for people: ``1 session``, ``2 sessions``."""

from typing import Final

_VOWELS: Final = "aeiou"


def counted(number: int, noun: str) -> str:
    """A number with its noun, given in the singular; the last word takes the plural where the number is not 1.

    For nouns with a regular plural: ``memory`` becomes ``memories``, ``dead letter`` becomes ``dead letters``.
    """
    return f"{number} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in _VOWELS else f"{noun}s"
