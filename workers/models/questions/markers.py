"""Marks by which a model says within a text which rows it rests on: ``[3]``, ``(row 3)``, ``【3】``.

The readers of the text do not see the rows. A number that may be something else stays: in code, in a list with such
numbers, behind a name as an index, in parentheses without a word.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

_LABEL: Final = r"(?i:rows?|lines?|memor(?:y|ies)|sources?|notes?|refs?|see|m|l|#)[ .:#]{0,3}"
_NUMBERS: Final = rf"\d{{1,4}}(?: ?(?:,|;|-|–|&|and) ?(?:{_LABEL})?\d{{1,4}}){{0,9}}"
_MARK: Final = re.compile(
    rf"(?P<square>\[\^?(?:{_LABEL})?{_NUMBERS}\])|(?P<wide>【(?:{_LABEL})?{_NUMBERS}(?:†[^】\n]{{0,40}})?】)"
    rf"|(?P<round>\({_LABEL}{_NUMBERS}\))"
)
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_NUMBER_OR_RANGE: Final = re.compile(r"(\d{1,4})(?: ?[-–] ?(\d{1,4}))?")
_MAX_RANGE: Final = 20
_MAX_GAP: Final = 9
"""Characters before a mark among which the last of what it stands behind is."""
_NO_END: Final = frozenset("\n:,;-–—([{*#>|=：，、；（")
"""Characters before a mark that is the label of what follows it."""


def without_marks_of_rows(text: str, offered: Collection[int], cited: Collection[int]) -> tuple[str, frozenset[int]]:
    """The text without such marks, and the numbers that they name.

    ``offered``: the numbers that a mark may name; ``cited``: those that the answer names beside its text, which is
    asked for where the mark may be something else. Where one mark in square brackets is none, all of them stay.
    """
    found = [*_marks(text)]
    if not found:
        return text, frozenset()
    squares = [mark for mark in found if mark["square"]]
    are_sure = all(_is_mark(text, mark, offered, cited) for mark in squares)
    sure = [mark for mark in found if (are_sure if mark["square"] else _is_mark(text, mark, offered, cited))]
    kept, at = "", 0
    for mark in sure:
        kept, at = kept + text[at : mark.start()].rstrip(" \t"), mark.end()
    bare = kept + text[at:]
    named = frozenset(number for mark in sure for number in _numbers_of(mark))
    return (bare, named) if bare.strip() else (text, named)


def _marks(text: str) -> Iterator[re.Match[str]]:
    """All that looks like a mark, outside of code."""
    if not any(bracket in text for bracket in "[【("):
        return
    code = [found.span() for found in _CODE.finditer(text)] if "`" in text else []
    for found in _MARK.finditer(text):
        if not any(start <= found.start() < end for start, end in code):
            yield found


def _is_mark(text: str, mark: re.Match[str], offered: Collection[int], cited: Collection[int]) -> bool:
    """Whether it surely names rows: it stands behind what rests on them, and is no link, no index and no label."""
    before, behind = text[max(0, mark.start() - _MAX_GAP) : mark.start()], text[mark.end() : mark.end() + 1]
    said = before.rstrip(" \t")
    is_label = not said or said[-1] in _NO_END or behind in {"(", ":"} or behind.isalnum()
    is_index = not mark["wide"] and said == before and said[-1:].isascii() and said[-1:].isalnum()
    known = cited if mark["round"] or is_index else offered
    return not is_label and all(number in known for number in _numbers_of(mark))


def _numbers_of(mark: re.Match[str]) -> list[int]:
    """All numbers that a mark names, those of a range too."""
    written = mark.group().partition("†")[0]
    numbers: list[int] = []
    for first, last in _NUMBER_OR_RANGE.findall(written):
        ends = min(int(last or first), int(first) + _MAX_RANGE)
        numbers += range(int(first), ends + 1)
    return numbers
