"""Metrics of segmentations: Pk, WindowDiff, boundary F1 and their combined score.

A segmentation is a list of segment lengths; two that are compared add up to the same number of units.
"""

from collections.abc import Sequence
from itertools import accumulate


def boundaries_of(lengths: Sequence[int]) -> set[int]:
    """The indices of units at which a segment begins, without the first."""
    return set(accumulate(lengths[:-1]))


def half_segment(lengths: Sequence[int]) -> int:
    """Half the mean length of a segment, at least 1; the usual window of Pk and WindowDiff."""
    return max(1, round(sum(lengths) / len(lengths) / 2))


def pk(gold: Sequence[int], predicted: Sequence[int], window: int | None = None) -> float:
    """Pk (Beeferman et al., 1999): the share of units ``window`` apart wrongly put into one segment or into two.

    Returns 0 where there are too few units. Raises ``ValueError`` for segmentations of different lengths.
    """
    wrong = [(a > 0) != (b > 0) for a, b in _windows(gold, predicted, window)]
    return sum(wrong) / len(wrong) if wrong else 0.0


def window_diff(gold: Sequence[int], predicted: Sequence[int], window: int | None = None) -> float:
    """WindowDiff (Pevzner and Hearst, 2002): the share of windows with different numbers of boundaries.

    Returns and raises as `pk` does.
    """
    wrong = [a != b for a, b in _windows(gold, predicted, window)]
    return sum(wrong) / len(wrong) if wrong else 0.0


def _windows(gold: Sequence[int], predicted: Sequence[int], window: int | None) -> list[tuple[int, int]]:
    """For all pairs of units ``window`` apart: the boundaries between them in both segmentations."""
    if sum(gold) != sum(predicted):
        raise ValueError(f"segmentations of {sum(gold)} and {sum(predicted)} units cannot be compared")
    width = half_segment(gold) if window is None else window
    mine, theirs = _before(gold), _before(predicted)
    return [
        (mine[start + width] - mine[start], theirs[start + width] - theirs[start]) for start in range(len(mine) - width)
    ]


def _before(lengths: Sequence[int]) -> list[int]:
    """For each unit: the number of boundaries before it or at it."""
    return [place for place, length in enumerate(lengths) for _ in range(length)]


def f1(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """F1 of boundaries over all pairs (gold, predicted) together; 1 where neither has any."""
    hits = wanted = found = 0
    for gold, predicted in pairs:
        right, given = boundaries_of(gold), boundaries_of(predicted)
        hits, wanted, found = hits + len(right & given), wanted + len(right), found + len(given)
    return 2 * hits / (wanted + found) if wanted + found else 1.0


def score(boundary_f1: float, p_k: float, difference: float) -> float:
    """(2 · F1 + (1 − Pk) + (1 − WindowDiff)) / 4 (SuperDialseg; SeCom, appendix A.1)."""
    return (2 * boundary_f1 + (1 - p_k) + (1 - difference)) / 4
