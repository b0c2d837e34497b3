"""Turns scores into hits, equally for every index: rounded, best first, ties by id."""

from collections.abc import Iterable
from heapq import nsmallest

from eunoe.schemas.ports import Hit

DIGITS = 6
"""Decimal digits of a score; engines sum floats in different orders, so further digits differ."""


def rounded(score: float) -> float:
    """A score to the digits in which hits are compared."""
    return round(score, DIGITS)


def best_hits(scores: Iterable[tuple[str, float]], limit: int) -> list[Hit]:
    """The ``limit`` best of (id, score) pairs, by rounded score descending and id ascending."""
    best = nsmallest(limit, ((-round(score, DIGITS), id_) for id_, score in scores))
    return [Hit(id=id_, score=0.0 - rank) for rank, id_ in best]  # not minus zero
