"""Where topics change, without a language model: cohesion, words and cues of dialogue, weighed together.

Every gap between two lines gets a score; a gap whose score is a local maximum and reaches the threshold is
a boundary. The weights are round and the same for every kind of dialogue. What was tried beside them (lexical
cohesion alone, the parity of turns, weights per kind of dialogue) gained nothing.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from eunoe.schemas.events import Span
from eunoe.schemas.ports import Vectors
from eunoe.workers.segment.cohesion import Gaps, adjacent, margins, standardize
from eunoe.workers.segment.cues import Marks, read_cues
from eunoe.workers.segment.lexis import Words, content_words, novelty, shared
from eunoe.workers.segment.spans import spans_from, stitch, windows
from eunoe.workers.text.language import is_english

_MARGIN, _ADJACENT, _NOVELTY, _SHARED = 0.75, -0.5, 6.5, -1.0
_FLOOR, _POWER, _PRICE = 0.2, 0.5, 2.0
"""See `eunoe.workers.segment.cohesion.margins`."""
_LEVEL_WITH_CUES, _LEVEL_ALONE = -6.0, -2.0
"""Bring both kinds of score to one threshold."""
_AT_ONCE, _SHARED_LINES = 400, 40
"""Lines that are looked at together (the work grows with their square), and lines that two such windows share."""


class Cue(NamedTuple):
    """What a cue says about a gap when a line at ``offset`` shows it: 1 is the first line after, 0 the last before."""

    name: str
    offset: int
    weight: float


CUES = (
    # a topic begins after the gap
    Cue("greeting", 1, 4.0),
    Cue("errand", 1, 1.5),
    Cue("personal", 1, 2.0),
    Cue("new_question", 1, 2.0),
    Cue("asks", 1, 2.0),
    Cue("asks", 2, 1.0),
    Cue("length", 1, 1.0),
    # a topic ended before it
    Cue("anything_else", 0, 4.0),
    Cue("farewell", 0, 1.5),
    Cue("closing", 0, 2.0),
    Cue("thanks", -1, 3.5),
    # the line after it answers, looks back, or is itself the end
    Cue("answer", 1, -1.5),
    Cue("backward", 1, -1.0),
    Cue("winding_up", 1, -2.5),
    Cue("ends_asking", 1, -1.5),
    Cue("done", 2, -3.0),
    Cue("request", 2, -1.5),
    # what the line before it began goes on
    Cue("opener", 0, -4.5),
    Cue("personal", 0, -3.0),
    Cue("request", 0, -2.0),
    Cue("open_question", 0, -0.5),
)


def boundaries(
    texts: Sequence[str],
    vectors: Vectors,
    threshold: float,
    *,
    names: Collection[str] = (),
    units: Sequence[Span] | None = None,
) -> tuple[Span, ...]:
    """Topic segments of the lines ``texts``, which they tile exactly.

    ``vectors`` has shape (n, dimensions), unit rows; ``names`` are words that tell no topic (the speakers);
    segments begin only where one of ``units`` does (None: anywhere). A long session is taken in windows.
    """
    allowed = {unit.first for unit in units} if units is not None else set(range(len(texts)))
    parts = []
    for window in windows([1] * len(texts), _AT_ONCE, _SHARED_LINES):
        rows = slice(window.first, window.last + 1)
        scores = gap_scores(texts[rows], vectors[rows], names)
        inside = [start - window.first - 1 for start in sorted(allowed) if window.first < start <= window.last]
        starts = [gap + 1 for gap in _peaks(scores[inside], inside, threshold)]
        spans = spans_from(starts, window.last - window.first + 1)
        parts.append([Span(first=window.first + s.first, last=window.first + s.last) for s in spans])
    return stitch(parts)


def gap_scores(texts: Sequence[str], vectors: Vectors, names: Collection[str] = ()) -> Gaps:
    """Shape (n - 1,): the evidence that a topic changes between lines g and g + 1."""
    words = content_words(texts, names)
    score = _cohesion_score(vectors, words)
    if not is_english(texts):
        return score + _LEVEL_ALONE
    cues = read_cues(texts, words, names)
    for cue in CUES:
        score = score + cue.weight * _at(cues[cue.name], cue.offset)
    return score + _LEVEL_WITH_CUES


def _cohesion_score(vectors: Vectors, words: Words) -> Gaps:
    standard = standardize(vectors)
    margin = margins(standard, floor=_FLOOR, power=_POWER, price=_PRICE)
    return _MARGIN * margin + _ADJACENT * adjacent(standard) + _NOVELTY * novelty(words) + _SHARED * shared(words)


def _at(marks: Marks, offset: int) -> Gaps:
    """The marks of the lines at ``offset`` from each gap; 0 beyond the ends."""
    lines = np.arange(len(marks) - 1) + offset
    there = (lines >= 0) & (lines < len(marks))
    return np.where(there, marks[np.clip(lines, 0, len(marks) - 1)], 0.0)


def _peaks(scores: Gaps, gaps: Sequence[int], threshold: float) -> list[int]:
    """The gaps that score over the threshold, more than the one before and not less than the one after."""
    rounded = np.concatenate(([-np.inf], np.round(scores, 6), [-np.inf]))
    here = rounded[1:-1]
    chosen = (here > threshold) & (here > rounded[:-2]) & (here >= rounded[2:])
    return [gap for gap, is_peak in zip(gaps, chosen.tolist(), strict=True) if is_peak]
