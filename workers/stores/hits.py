"""Turns scores into hits, equally for every index: rounded, best first, ties by id."""

from collections.abc import Iterable
from heapq import nsmallest

from eunoe.schemas.ports import Hit

DIGITS = 6
"""Decimal digits of a score; engines sum floats in different orders, so further digits differ."""


def best_hits(scores: Iterable[tuple[str, float]], limit: int) -> list[Hit]:
    """The ``limit`` best of (id, score) pairs, by rounded score descending and id ascending."""
    best = nsmallest(limit, ((-round(score, DIGITS), id_) for id_, score in scores))
    return [Hit(id=id_, score=0.0 - rank) for rank, id_ in best]  # not minus zero


def cut_is_tied(hits: list[Hit], limit: int) -> bool:
    """Whether the last hit fetched scores like the last one wanted, so that hits not fetched may score the same."""
    return 0 < limit <= len(hits) and hits[-1].score == hits[limit - 1].score
