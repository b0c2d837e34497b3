"""The numbers in an answer, as models write them, and of its rows where a model counts from 0.

A number in words that somebody said is none.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar


class NumberedRow(Protocol):
    """The answer for one item."""

    @property
    def n(self) -> int:
        """The item's number in the question, from 1."""
        ...

    def model_copy(self, *, update: dict[str, Any]) -> Self:
        """The row with other values."""
        ...

    def model_dump(self) -> dict[str, Any]:
        """The row as a document."""
        ...


_PLAIN_DIGITS = re.compile(r"\d{1,9}")
_LABELLED = re.compile(r"\W{0,9}?(?:[^\W\d]{1,12}\W{0,3})?(-?\d{1,9})(?:\W*|\s*(?:[\])}:.=,(/-]|of\s?\d).*)", re.DOTALL)
"""A number that a word may stand before, and more behind a bracket, a colon, a stop: ``line 3``, ``[7] Mia (Tue)``."""
_BARE = re.compile(r"\W{0,9}?(-?\d{1,9})(?:\W*|\s*[\])}:.=].*)", re.DOTALL)
"""The same without the word: "Speaker 2" is a name, and may be the first of the list."""
_RANGE = re.compile(r"\W{0,3}(\d{1,9})\s?(?:[-–—]|to)\s?(\d{1,9})\W{0,3}")
_MAX_RANGE = 20
_MEMORY = re.compile(r"(?is)\W{0,9}?m(?:em(?:ory)?)?[\s#_-]{0,3}(-?\d{1,9})(?:\W*|\s*[\])}:.=(].*)")
"""The id of a memory and more behind it: ``m3``, ``memory 3``, ``[m3] Mia (Tue)``."""
_BETWEEN_IDS = re.compile(r"\s{0,9}(?:,|;|&|\band\b)\s{0,9}|\s{1,9}(?=\[?[mM]\d)")
_NUMBER_LIST = re.compile(r"[\d\s,;&\[\]()]+")

RowT = TypeVar("RowT", bound=NumberedRow)

FROM_0 = "the numbers begin with 1, not with 0"
"""The fault of rows of which nobody can say what they are about."""


def counted_from_1(rows: Sequence[RowT], items: int) -> Sequence[RowT] | None:
    """The rows about ``items`` items, numbered from 1; `None` where it cannot be said which item each is about.

    A row 0 says that the model counted from 0: then every row is about the next item. That is sure of rows that count
    0, 1, 2 … A 0 beside all numbers from 1 is one too many.
    """
    numbers = [row.n for row in rows]
    if 0 not in numbers or set(range(1, items + 1)) <= set(numbers):
        return rows
    if len(numbers) <= items and numbers == list(range(len(numbers))):
        return [row.model_copy(update={"n": row.n + 1}) for row in rows]
    return None


# ---- numbers as they are written


def number_of(value: object) -> object:
    """The number of a text such as ``"[3]"``, ``"m3"`` or ``"m-3"``; anything else as it is."""
    found = _LABELLED.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else int(found[1])


def _is_whole(value: object) -> bool:
    """Whether a value is read as a whole number."""
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def number_or_0(value: object) -> object:
    """The number; 0 for "none", for a name, and for whatever else is none."""
    number = number_of(value)
    return number if _is_whole(number) else 0


def speaker_or_0(value: object) -> object:
    """The number of a speaker; 0 for a name, whatever numbers are in it."""
    if isinstance(value, str):
        found = _BARE.fullmatch(value)
        return 0 if found is None else int(found[1])
    return number_or_0(value)


def numbers_listed(value: object) -> object:
    """The numbers of a list, of a text such as ``"2, 3"`` or ``"[2, 3]"``, or a single one; without what is none."""
    parts = value if isinstance(value, list | tuple) else [value]
    numbers = [number for part in parts for number in _numbers_in(part)]
    return [number for number in numbers if _is_whole(number)]


def _numbers_in(value: object) -> list[object]:
    """All numbers of a text that holds nothing else, also of a range; of another its own; any other value as it is."""
    if isinstance(value, str) and (ends := _RANGE.fullmatch(value)):
        first, last = int(ends[1]), int(ends[2])
        return list(range(first, min(last, first + _MAX_RANGE) + 1))
    if isinstance(value, str) and _NUMBER_LIST.fullmatch(bare := value.replace("and", ",")):
        return [int(found) for found in _PLAIN_DIGITS.findall(bare)]
    return [number_of(value)]


def lines_listed(value: object) -> object:
    """The numbers of a list of lines, as `numbers_listed` reads them; without the ids of memories."""
    parts = value if isinstance(value, list | tuple) else [value]
    return numbers_listed([part for part in parts if not (isinstance(part, str) and _MEMORY.fullmatch(part))])


def memories_listed(value: object) -> object:
    """The ids of a list of memories, or of a text such as ``"m2, m3"``: ``m2``, ``memory 2`` and ``[M2]`` are ``m2``.

    A number without the letter stays without: it may be that of a line. What has no number is left out.
    """
    parts = value if isinstance(value, list | tuple) else [value]
    return [found for part in parts for one in _ids_in(part) if (found := _memory_id(one))]


def _ids_in(value: object) -> list[object]:
    """The parts of a text that lists ids; any other value as it is."""
    if not isinstance(value, str):
        return [value]
    parts = _BETWEEN_IDS.split(value.strip("[]() "))
    return [*parts] if all(_MEMORY.fullmatch(part) or _PLAIN_DIGITS.fullmatch(part) for part in parts) else [value]


def _memory_id(value: object) -> str:
    """``m3`` for the id of a memory, ``3`` for a number, another text with a number as it is; else an empty text."""
    if _is_whole(value):
        return str(value)
    if not isinstance(value, str):
        return ""
    if (found := _MEMORY.fullmatch(value)) is not None:
        return f"m{int(found[1])}"
    bare = _BARE.fullmatch(value)
    return value if bare is None and _PLAIN_DIGITS.search(value) else "" if bare is None else str(int(bare[1]))
