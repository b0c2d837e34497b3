"""Content words around a gap: new ones indicate a topic change, shared ones continuity."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from eunoe.workers.segment.cohesion import Gaps
from eunoe.workers.text.terms import terms

_BEHIND = 4
_AHEAD = 2
_NEAR = 3
_MAX_SHARED = 3.0

Words = Sequence[frozenset[str]]
"""The content words of each line."""


def content_words(texts: Sequence[str], names: Collection[str]) -> Words:
    """The terms of each text, without those of ``names``."""
    return [frozenset(terms(text, names)) for text in texts]


def novelty(words: Words) -> Gaps:
    """The share of the next two lines' words that the last four lines lack; below 1, 0 for no words."""
    found = []
    for gap in range(1, len(words)):
        ahead = union(words[gap : gap + _AHEAD])
        found.append(len(ahead - union(words[max(0, gap - _BEHIND) : gap])) / (len(ahead) + 1))
    return np.array(found, np.float64)


def shared(words: Words) -> Gaps:
    """The words shared by the three lines before and after the gap, rare ones weighing more; at most 3."""
    lines_with = Counter(word for line in words for word in line)
    found = []
    for gap in range(1, len(words)):
        common = union(words[max(0, gap - _NEAR) : gap]) & union(words[gap : gap + _NEAR])
        weight = sum(1 / np.log2(1 + lines_with[word]) for word in sorted(common))
        found.append(min(float(weight), _MAX_SHARED))
    return np.array(found, np.float64)


def union(lines: Words) -> frozenset[str]:
    """The union of the words of these lines."""
    return frozenset().union(*lines)
