"""Simple segmenters as baselines; each returns the lengths of segments."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.model_ports import Vectors
from eunoe.workers.segment.cohesion import standardize

EVERY = 5
"""Lines of a segment of equal segments."""
WINDOW = 2
"""Lines on each side of a gap that TextTiling compares."""
FLOOR, POWER, PRICE = 0.2, 0.5, 2.0
"""Parameters of the dynamic programming, as in `eunoe.workers.segment.boundaries` without cues, words, threshold."""

Lengths = list[int]
Floats = NDArray[np.float64]


def none(vectors: Vectors) -> Lengths:
    """One segment, no boundary."""
    return [len(vectors)] if len(vectors) else []


def every(vectors: Vectors) -> Lengths:
    """A boundary after every `EVERY` lines."""
    n = len(vectors)
    return [min(EVERY, n - start) for start in range(0, n, EVERY)]


def text_tiling(vectors: Vectors) -> Lengths:
    """TextTiling (Hearst, 1997) over embeddings: boundaries at valleys of the similarity across a gap.

    A gap is a boundary where its depth exceeds the mean of all depths minus half their standard deviation.
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
    """The rise of the similarity on both sides of a gap up to the next peak."""
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
    """The segmentation of maximum cohesion, by dynamic programming over the similarity of pairs of lines."""
    n = len(vectors)
    if n < 2:
        return none(vectors)
    gain = standardize(vectors) - FLOOR
    np.fill_diagonal(gain, 0.0)
    table = np.zeros((n + 1, n + 1))
    table[1:, 1:] = gain.cumsum(axis=0).cumsum(axis=1)
    best, start_of = [0.0] * (n + 1), [0] * (n + 1)
    for end in range(1, n + 1):
        values = [
            best[start]
            + (table[end, end] - 2 * table[start, end] + table[start, start]) / (end - start) ** POWER
            - PRICE
            for start in range(end)
        ]
        start_of[end] = int(np.argmax(values))
        best[end] = values[start_of[end]]
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
