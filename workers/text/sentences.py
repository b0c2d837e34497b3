"""Finds the sentences of a text."""

import re
from collections.abc import Iterator

_SENTENCE = re.compile(
    # a run of marks before a space or a quotation mark; a long run wherever it stands; a mark inside a word
    r"[^.!?…。！？]*(?:[.!?…]{1,64}(?=\s|[\"'”’)]|$)|[.!?…]{65,}|[.!?…](?=\S)|[。！？]+|$)[\"”)]*"
)
_ABBREVIATED = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|e\.g|i\.e|a\.m|p\.m|No)|\b[A-Z])\.$")
_ABBREVIATED_CHARS = 8
"""More characters than an abbreviation has."""
_STREET_NUMBER = re.compile(r"[Ss]tr\. \d")
"""The mark of a street that is cut short, in German: "Gartenstr. 12"."""
_STREET_CHARS = len("str.")
_ORDINAL = re.compile(
    r"(?<!\S)\d{1,2}\. {1,2}"
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|"
    r"(?:Jan|Feb|Apr|Aug|Sept?|Okt|Nov|Dez)\.)"
)
"""A day of a month in German, whose mark ends no sentence: "am 14. März"."""
_ORDINAL_CHARS = 3
_MONTH_CHARS = 12


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each sentence of a text without line breaks."""
    start = end = 0
    for found in _SENTENCE.finditer(text):
        written = found.group()
        piece = written.strip()
        first = found.end() - len(written.lstrip())
        if piece and start < end and not _goes_on(text, start, end, first):
            yield start, end
            start = first
        if piece:
            end = first + len(piece)
    if start < end:
        yield start, end


def _goes_on(text: str, start: int, end: int, first: int) -> bool:
    """Whether the sentence from ``start`` to ``end`` goes on at ``first``: the mark was that of an abbreviation or
    stands inside a word or a number.
    """
    if end == first and text[end - 1] in ".!?…" and text[first].isalnum():
        return True
    if _ABBREVIATED.search(text[max(start, end - _ABBREVIATED_CHARS) : end]):
        return True
    if _STREET_NUMBER.match(text, max(start, end - _STREET_CHARS)):
        return True
    return _ORDINAL.search(text[max(start, end - _ORDINAL_CHARS - 1) : first + _MONTH_CHARS]) is not None
