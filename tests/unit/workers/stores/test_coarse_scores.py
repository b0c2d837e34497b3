"""Scores that are kept while rows change are those of all rows anew."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.stores.vectors.coarse_scores import MOST_QUERIES, CoarseScores

DIMENSIONS = 8
_CHANCE = np.random.default_rng(3)
QUERIES = [row.tobytes() for row in _CHANCE.standard_normal((2 * MOST_QUERIES, DIMENSIONS)).astype("<f4")]


class Counting(np.ndarray):
    """Rows that note how many of them each product reads."""

    read: list[int]

    def __array_finalize__(self, rows: object) -> None:
        self.read = getattr(rows, "read", [])

    def __matmul__(self, other: object) -> object:
        self.read.append(len(self))
        return np.asarray(self) @ other


def counting(rows: NDArray[np.float32], read: list[int]) -> NDArray[np.float32]:
    found = rows.view(Counting)
    found.read = read
    return found


def vectors(count: int) -> NDArray[np.float32]:
    return _CHANCE.standard_normal((count, DIMENSIONS)).astype("<f4")


def assert_true(found: Sequence[NDArray[np.float32]], queries: Sequence[bytes], rows: NDArray[np.float32]) -> None:
    for scores, query in zip(found, queries, strict=True):
        assert np.allclose(scores, rows @ np.frombuffer(query, "<f4"), atol=1e-5)


def test_scores_are_true_whatever_changed_meanwhile() -> None:
    chance = random.Random(3)
    held, rows, scores = 40, vectors(200), CoarseScores()
    for _ in range(300):
        for _ in range(chance.choice((0, 1, 3))):
            place = held if chance.random() < 0.6 else chance.randrange(held)
            held = min(200, max(held, place + 1)) if chance.random() < 0.7 else held - 1  # or the last one is removed
            place = min(place, held - 1)
            rows[place] = vectors(1)
            scores.change(place)
        asked = chance.sample(QUERIES, chance.choice((1, 3, MOST_QUERIES + 1)))
        assert_true(scores.of(asked, rows[:held]), asked, rows[:held])


def test_what_was_asked_before_reads_the_changed_rows_alone() -> None:
    rows, scores, read = vectors(1_000), CoarseScores(), list[int]()
    scores.of(QUERIES[:4], counting(rows[:990], read))
    for place in (7, *range(990, 1_000)):
        rows[place] = vectors(1)
        scores.change(place)
    assert_true(scores.of(QUERIES[1:3], counting(rows, read)), QUERIES[1:3], rows)
    assert read == [990, 11, 11]


def test_few_queries_are_kept_and_none_where_most_rows_changed() -> None:
    rows, scores, read = vectors(100), CoarseScores(), list[int]()
    for query in QUERIES:
        scores.of([query], counting(rows, read))
    assert read == [100] * len(QUERIES)
    for _ in range(2):
        scores.of(QUERIES[:1], counting(rows, read))
    for place in range(20):
        scores.change(place)
    scores.of(QUERIES[:1], counting(rows, read))
    assert read[len(QUERIES) :] == [100, 0, 100]
