"""Turns scores into hits, equally for every index: rounded, best first, ties by id."""

from collections.abc import Iterable

from eunoe.schemas.ports import Hit

DIGITS = 6
"""Decimal digits of a score; engines sum floats in different orders, so further digits differ."""


def best_hits(scores: Iterable[tuple[str, float]], limit: int) -> list[Hit]:
    """The ``limit`` best of (id, score) pairs, by rounded score descending and id ascending."""
    # adding zero turns -0.0 into 0.0
    hits = (Hit(id=id_, score=round(score, DIGITS) + 0.0) for id_, score in scores)
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: max(0, limit)]


def cut_is_tied(hits: list[Hit], limit: int) -> bool:
    """Whether the last hit fetched scores like the last one wanted, so that hits not fetched may score the same."""
    return 0 < limit <= len(hits) and hits[-1].score == hits[limit - 1].score
