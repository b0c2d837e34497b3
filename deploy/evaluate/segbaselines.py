"""Simple segmenters to compare with. Pure; each gives the lengths of segments, and none reads the gold."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.ports import Vectors
from eunoe.workers.segment.cohesion import standardize

EVERY = 5
"""Lines of a segment where one is as long as the other."""
WINDOW = 2
"""Lines on each side that TextTiling compares."""
FLOOR, POWER, PRICE = 0.2, 0.5, 2.0
"""Of the dynamic programming: those of `eunoe.workers.segment.boundaries`, without cues, words and threshold."""

Lengths = list[int]
Floats = NDArray[np.float64]


def none(vectors: Vectors) -> Lengths:
    """No boundary."""
    return [len(vectors)] if len(vectors) else []


def every(vectors: Vectors) -> Lengths:
    """A boundary after every `EVERY` lines."""
    n = len(vectors)
    return [min(EVERY, n - start) for start in range(0, n, EVERY)]


def text_tiling(vectors: Vectors) -> Lengths:
    """Valleys of the similarity of what lies before and after a gap (Hearst, 1997), over embeddings.

    A gap is a boundary where its depth is above the mean of depths less half their standard deviation.
    """
    n = len(vectors)
    if n < 2:
        return none(vectors)
    wide = vectors.astype(np.float64)
    likeness = np.asarray([_cosine(wide[max(0, g - WINDOW) : g], wide[g : g + WINDOW]) for g in range(1, n)])
    depths = np.asarray([_depth(likeness, gap) for gap in range(n - 1)])
    limit = depths.mean() - depths.std() / 2
    chosen = [
        gap + 1
        for gap in range(n - 1)
        if depths[gap] > limit and depths[gap] >= depths[max(0, gap - 1) : gap + 2].max() and depths[gap] > 0
    ]
    return _lengths(chosen, n)


def _cosine(before: Floats, after: Floats) -> float:
    a, b = before.mean(axis=0), after.mean(axis=0)
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-9))


def _depth(likeness: Floats, gap: int) -> float:
    """How far the similarity rises on both sides before it falls again."""
    left = right = float(likeness[gap])
    for value in likeness[gap - 1 :: -1] if gap else ():
        if value < left:
            break
        left = float(value)
    for value in likeness[gap + 1 :]:
        if value < right:
            break
        right = float(value)
    return left + right - 2 * float(likeness[gap])


def dynamic(vectors: Vectors) -> Lengths:
    """The segmentation whose lines hang together best, by dynamic programming over the similarity of pairs."""
    n = len(vectors)
    if n < 2:
        return none(vectors)
    gain = standardize(vectors) - FLOOR
    np.fill_diagonal(gain, 0.0)
    table = np.zeros((n + 1, n + 1))
    table[1:, 1:] = gain.cumsum(axis=0).cumsum(axis=1)
    best, start_of = [0.0] * (n + 1), [0] * (n + 1)
    for end in range(1, n + 1):
        worth = [
            best[start]
            + (table[end, end] - 2 * table[start, end] + table[start, start]) / (end - start) ** POWER
            - PRICE
            for start in range(end)
        ]
        start_of[end] = int(np.argmax(worth))
        best[end] = worth[start_of[end]]
    cuts, end = [], n
    while (end := start_of[end]) > 0:
        cuts.append(end)
    return _lengths(sorted(cuts), n)


def _lengths(starts: list[int], n: int) -> Lengths:
    edges = [0, *starts, n]
    return [after - before for before, after in pairwise(edges)]


BASELINES: Mapping[str, Callable[[Vectors], Lengths]] = {
    "none": none,
    f"every-{EVERY}": every,
    "texttiling": text_tiling,
    "dynamic-programming": dynamic,
}
