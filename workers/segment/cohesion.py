"""Cohesion of the lines on both sides of a gap, by the similarity of their vectors."""

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.model_ports import Vectors

Similarities = NDArray[np.float64]
"""Shape (n, n), symmetric, in standard deviations above the session's mean; 0 on the diagonal."""

Gaps = NDArray[np.float64]
"""Shape (n - 1,): entry g is for the gap between lines g and g + 1."""

_USUAL_SPREAD = 0.15
_PAIRS_OF_USUAL = 6.0
"""Prior of the spread: short sessions are pulled towards the usual spread, as if that many pairs had shown it."""


def standardize(vectors: Vectors) -> Similarities:
    """The cosines of all pairs of lines, relative to the session's mean and spread.

    This makes embedders with generally high or low cosines comparable. ``vectors`` has shape (n, dimensions), unit
    rows.
    """
    wide = vectors.astype(np.float64)
    similarity = wide @ wide.T
    n = len(similarity)
    pairs = similarity[np.triu_indices(n, 1)]
    if not pairs.size:
        return np.zeros((n, n))
    around = float(np.square(pairs - pairs.mean()).sum()) + _PAIRS_OF_USUAL * _USUAL_SPREAD**2
    standard: Similarities = (similarity - pairs.mean()) / np.sqrt(around / (pairs.size + _PAIRS_OF_USUAL))
    np.fill_diagonal(standard, 0.0)
    return standard


def margins(standard: Similarities, *, floor: float, power: float, price: float) -> Gaps:
    """The gain of a boundary in each gap for the best segmentation, by dynamic programming over pair similarity.

    The value of a segment of m lines is the sum over its ordered pairs of (similarity - ``floor``) / m ** ``power``,
    less ``price``. Entry g is the best segmentation with a boundary in gap g less the best without.
    """
    n = len(standard)
    values = _segment_values(standard, floor, power) - price
    before, after = np.zeros(n + 1), np.zeros(n + 1)
    for end in range(1, n + 1):
        before[end] = (before[:end] + values[:end, end]).max()
    for start in range(n - 1, -1, -1):
        after[start] = (values[start, start + 1 :] + after[start + 1 :]).max()
    through = before[:, None] + values + after[None, :]
    covering = np.maximum.accumulate(np.maximum.accumulate(through, axis=0)[:, ::-1], axis=1)[:, ::-1]
    cut = np.arange(1, n)
    found: Gaps = before[cut] + after[cut] - covering[cut - 1, cut + 1]
    return found


def _segment_values(standard: Similarities, floor: float, power: float) -> NDArray[np.float64]:
    """Entry (i, j): the cohesion of the lines i to j - 1; minus infinity if that is no segment."""
    n = len(standard)
    gain = standard - floor
    np.fill_diagonal(gain, 0.0)
    table = np.zeros((n + 1, n + 1))
    table[1:, 1:] = gain.cumsum(axis=0).cumsum(axis=1)
    corner = np.diagonal(table)
    total = corner[None, :] - table - table.T + corner[:, None]
    length = np.arange(n + 1)[None, :] - np.arange(n + 1)[:, None]
    return np.where(length > 0, total / np.maximum(length, 1) ** power, -np.inf)


def adjacent(standard: Similarities) -> Gaps:
    """The similarity of the two lines at each gap."""
    found: Gaps = np.diagonal(standard, 1).copy()
    return found
