"""Cuts a long text into passages: the unit that retrieval scores and shows.

A passage ends at a sentence, list item, heading, table row, line of code or paragraph. A text of ordinary length is
one passage. Linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from eunoe.workers.text.sentences import sentence_spans
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens, token_cuts

MAX_TOKENS = 80
"""Tokens of a passage."""
GAP = "…"
"""Written where something of a text is left out."""

_LINE = re.compile(r"[^\r\n\u2028\u2029]+")
_HEADING = re.compile(r"^[ \t]{0,16}(?:#{1,6}[ \t]|\*\*[^*\n]{1,120}\*\*:?[ \t]{0,16}$)")
_ITEM = re.compile(r"^[ \t]{0,16}(?:[-*+•]|\d{1,3}[.)]|[a-z][.)])[ \t]{1,16}")
_FENCE = re.compile(r"^[ \t]{0,16}(?:```|~~~)")


class PassageSpan(NamedTuple):
    """A part of a text, from ``start`` up to ``end``, without white space around it."""

    start: int
    end: int
    tokens: int
    opens: bool = False
    """Whether it is a heading, which belongs to what follows it."""


def cut_passages(text: str, max_tokens: int = MAX_TOKENS) -> tuple[PassageSpan, ...]:
    """The passages of a text, in order; a blank text has one.

    Neighbouring pieces are joined while they have at most ``max_tokens`` together; a heading begins a passage.
    """
    whole = count_tokens(text)
    if whole <= max_tokens:
        return (PassageSpan(0, len(text), whole),)
    found: list[PassageSpan] = []
    for piece in cut_pieces(text, max_tokens):
        last = found[-1] if found else None
        if last is not None and not piece.opens and last.tokens + piece.tokens <= max_tokens:
            found[-1] = PassageSpan(last.start, piece.end, last.tokens + piece.tokens, last.opens)
        else:
            found.append(piece)
    return tuple(found) or (PassageSpan(0, len(text), whole),)


def excerpt_spans(text: str, about: str, max_tokens: int) -> tuple[tuple[int, int], ...]:
    """(start, end) of the connected parts of a text that fit into ``max_tokens``, in order.

    The passages that share most words with ``about`` come first, then those nearest to the beginning. Empty where not
    even one passage fits.
    """
    spans = cut_passages(text)
    wanted = frozenset(terms(about))
    shared = [len(wanted.intersection(terms(text[span.start : span.end]))) for span in spans]
    chosen: set[int] = set()
    left = max_tokens
    for place in sorted(range(len(spans)), key=lambda place: (-shared[place], place)):
        if spans[place].tokens + 1 <= left:  # and a gap mark
            chosen.add(place)
            left -= spans[place].tokens + 1
    found: list[tuple[int, int]] = []
    for place in sorted(chosen):
        start = found.pop()[0] if place - 1 in chosen else spans[place].start
        found.append((start, spans[place].end))
    return tuple(found)


def excerpt(text: str, about: str, max_tokens: int) -> str:
    """The text in at most about ``max_tokens``, with a mark for each gap; whole where it fits."""
    if count_tokens(text) <= max_tokens:
        return text
    spans = excerpt_spans(text, about, max_tokens)
    if not spans:
        return text
    parts = f" {GAP} ".join(text[start:end] for start, end in spans)
    before, behind = text[: spans[0][0]].strip(), text[spans[-1][1] :].strip()
    return f"{f'{GAP} ' if before else ''}{parts}{f' {GAP}' if behind else ''}"


def cut_pieces(text: str, max_tokens: int = MAX_TOKENS) -> Iterator[PassageSpan]:
    """The sentences, list items, headings, table rows and lines of code of a text, none above ``max_tokens``."""
    in_code = False
    for line in _LINE.finditer(text):
        written = line.group()
        fence = _FENCE.match(written) is not None
        code, in_code = in_code or fence, in_code != fence
        opens = not code and _HEADING.match(written) is not None
        for start, end in [(0, len(written))] if code or opens else _sentences(written):
            yield from _fitting(text, line.start() + start, line.start() + end, max_tokens, opens)


def _sentences(line: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each sentence of a line; the mark of a list item belongs to its first sentence.

    A mark with nothing behind it is a piece of its own.
    """
    mark = _ITEM.match(line)
    lead = mark.end() if mark and line[mark.end() :].strip() else 0
    for start, end in sentence_spans(line[lead:]):
        yield (0 if start == 0 else start + lead), end + lead


def _fitting(text: str, start: int, end: int, max_tokens: int, opens: bool) -> Iterator[PassageSpan]:
    """The piece without white space around it, cut between words where it is too long; nothing if it is blank."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    piece = piece.strip()
    if not piece:
        return
    tokens = count_tokens(piece)
    if tokens <= max_tokens:
        yield PassageSpan(start, start + len(piece), tokens, opens)
        return
    for first, last in token_cuts(piece, max_tokens):
        part = piece[first:last]
        bare = part.strip()
        begin = start + first + len(part) - len(part.lstrip())
        if bare:
            yield PassageSpan(begin, begin + len(bare), count_tokens(bare))
