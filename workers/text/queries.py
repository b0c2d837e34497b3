"""A search by several texts of different weights: an utterance, those before it, and a question about them."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.text.terms import terms

WeightedText = tuple[str, float]
"""A text and its weight beside a main text of weight 1."""

LOOKED_UP_WEIGHT = 0.5
"""Weight of the question that stage blend asked of memory."""
BEFORE = 2
"""Utterances before the last one that are searched by, too."""
MAX_CHARS = 2000
"""Characters read of each of these texts."""


def texts_around(text: str, before: Sequence[str], looked_up: str, drop: Collection[str]) -> tuple[WeightedText, ...]:
    """The texts to search by beside an utterance: the question asked of memory, and the utterances before it.

    The latest of ``before`` weighs 1 / (1 + n²) beside an utterance of n terms, the one before it half of that: what
    says little by itself is about what was said before. Texts that add no term are left out.
    """
    own = set(terms(text, drop=drop))
    weights = {looked_up[:MAX_CHARS]: LOOKED_UP_WEIGHT}
    for step, line in enumerate(reversed(before[-BEFORE:])):
        weights.setdefault(line[:MAX_CHARS], round(1 / (1 + len(own) ** 2) / 2**step, 4))
    return tuple((one, weight) for one, weight in weights.items() if not own.issuperset(terms(one, drop=drop)))


def weighted_terms(text: str, around: Sequence[WeightedText], drop: Collection[str] = ()) -> dict[str, float]:
    """Term → weight: its count in ``text``, or else the weight of the heaviest text of ``around`` that has it."""
    found: dict[str, float] = {}
    for term in terms(text, drop=drop):
        found[term] = found.get(term, 0) + 1
    for other, weight in sorted(around, key=lambda one: -one[1]):
        for term in terms(other, drop=drop):
            found.setdefault(term, weight)
    return found


def mixed_vector(vectors: Sequence[NDArray[np.float32]], weights: Sequence[float]) -> NDArray[np.float32]:
    """The unit vector of a weighted sum of unit vectors; the first one if there are no others."""
    if len(vectors) == 1:
        return vectors[0]
    total = np.asarray(weights, dtype=np.float64) @ np.stack(vectors).astype(np.float64)
    mixed: NDArray[np.float32] = (total / max(float(np.linalg.norm(total)), 1e-9)).astype(np.float32)
    return mixed
