"""Combines the rankings of several searches."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from eunoe.schemas.ports import Hit


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Hit]], k: int = 60) -> list[Hit]:
    """Reciprocal rank fusion: a hit scores the sum of 1 / (k + rank), rank from 1; ties by id."""
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.id] += 1 / (k + rank)
    fused = (Hit(id=id_, score=round(score, 6)) for id_, score in scores.items())
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))
