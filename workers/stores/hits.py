"""From scores to hits, the same for every index: rounded, best first, ties by id. Pure."""

from collections.abc import Iterable

from eunoe.schemas.ports import Hit

DIGITS = 6
"""Digits of a score that count: engines sum floats in different orders."""


def best_hits(scores: Iterable[tuple[str, float]], limit: int) -> list[Hit]:
    """The ``limit`` best of (id, score) pairs: rounded scores descending, equal ones by id ascending."""
    # adding zero makes -0.0 the zero it equals
    hits = (Hit(id=id_, score=round(score, DIGITS) + 0.0) for id_, score in scores)
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[: max(0, limit)]


def cut_is_tied(hits: list[Hit], limit: int) -> bool:
    """True when the last of the hits fetched scores like the last one wanted: others outside may score so too."""
    return 0 < limit <= len(hits) and hits[-1].score == hits[limit - 1].score
