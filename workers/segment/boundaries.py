"""Finds topic boundaries without a language model, from cohesion, words and cues of dialogue.

Every gap between two lines gets a score; a gap whose score is a local maximum above the threshold is a boundary. The
weights are round numbers, the same for every kind of dialogue. Lexical cohesion alone, the parity of turns, and weights
per kind of dialogue were tried and did not help.
"""

import math
from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from eunoe.schemas.events import Span
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.segment.cohesion import Gaps, adjacent, margins, standardize
from eunoe.workers.segment.content_words import Words, content_words, novelty, shared
from eunoe.workers.segment.cues import Strengths, read_cues
from eunoe.workers.segment.spans import spans_from, stitch, windows
from eunoe.workers.text.language import is_english

_MARGIN, _ADJACENT, _NOVELTY, _SHARED = 0.75, -0.5, 6.5, -1.0
_FLOOR, _POWER, _PRICE = 0.2, 0.5, 2.0
"""See `eunoe.workers.segment.cohesion.margins`."""
_LEVEL_WITH_CUES, _LEVEL_ALONE = -6.0, -2.0
"""Offsets that bring both kinds of score to one threshold."""
_TURN_WORDS, _LONG_TURNS = 30, 10.0
"""Words of a line up to which the threshold stays, and its rise with every doubling of them."""
_MAIN_SHARE = 0.25
"""Least share of the lines of a speaker whose lines' length counts."""
_WINDOW_LINES, _OVERLAP_LINES = 400, 40
"""Lines of one window (time grows with their square), and lines that two windows share."""


class Cue(NamedTuple):
    """The weight of a cue for a gap.

    The line at ``offset`` shows it: 1 is the first line after the gap, 0 the last before.
    """

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
    # the line before it continues into the next
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
    speakers: Sequence[str] = (),
    units: Sequence[Span] | None = None,
) -> tuple[Span, ...]:
    """Topic segments that tile the lines ``texts``.

    ``vectors`` has shape (n, dimensions), unit rows; ``speakers`` has the speaker of each line, whose name carries no
    topic, or is empty. Segments begin only where one of ``units`` does; `None` allows any line. A long session is split
    into windows.
    """
    names = sorted(set(speakers))
    threshold += long_turns(texts, speakers)
    allowed = {unit.first for unit in units} if units is not None else set(range(len(texts)))
    parts = []
    for window in windows([1] * len(texts), _WINDOW_LINES, _OVERLAP_LINES):
        rows = slice(window.first, window.last + 1)
        scores = gap_scores(texts[rows], vectors[rows], names)
        inside = [start - window.first - 1 for start in sorted(allowed) if window.first < start <= window.last]
        starts = [gap + 1 for gap in _peaks(scores[inside], inside, threshold)]
        spans = spans_from(starts, window.last - window.first + 1)
        parts.append([Span(first=window.first + s.first, last=window.first + s.last) for s in spans])
    return stitch(parts)


def long_turns(texts: Sequence[str], speakers: Sequence[str]) -> float:
    """The rise of the threshold where lines are long, as in meetings and chats with an assistant; else 0.

    A long line shows cues in passing, and words that are new. The tersest of the main speakers counts.
    """
    words: dict[str, list[int]] = {}
    for text, speaker in zip_longest(texts, speakers, fillvalue=""):
        words.setdefault(speaker, []).append(len(text.split()))
    means = [sum(own) / len(own) for own in words.values() if len(own) >= _MAIN_SHARE * len(texts)]
    mean = min(means, default=sum(map(sum, words.values())) / max(len(texts), 1))
    return _LONG_TURNS * math.log2(max(mean / _TURN_WORDS, 1.0))


def gap_scores(texts: Sequence[str], vectors: Vectors, names: Collection[str] = ()) -> Gaps:
    """The evidence for a topic change between lines g and g + 1, shape (n - 1,)."""
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


def _at(strengths: Strengths, offset: int) -> Gaps:
    """The strengths of the lines at ``offset`` from each gap; 0 beyond the ends."""
    found = np.zeros(max(len(strengths) - 1, 0))
    first, end = max(-offset, 0), min(len(strengths) - offset, len(found))
    if first < end:
        found[first:end] = strengths[first + offset : end + offset]
    return found


def _peaks(scores: Gaps, gaps: Sequence[int], threshold: float) -> list[int]:
    """The gaps above the threshold that score more than the previous one and not less than the next."""
    rounded = np.concatenate(([-np.inf], np.round(scores, 6), [-np.inf]))
    here = rounded[1:-1]
    chosen = (here > threshold) & (here > rounded[:-2]) & (here >= rounded[2:])
    return [gap for gap, is_peak in zip(gaps, chosen.tolist(), strict=True) if is_peak]
