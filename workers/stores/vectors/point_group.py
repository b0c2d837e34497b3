"""The points of one conversation in memory, with their vectors as the rows of one array."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import overload

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import Point, SparseVector, digest_of_text
from eunoe.schemas.ports import Search
from eunoe.workers.stores.vectors.coarse_scores import CoarseScores

_ROUNDED = 1e-5
"""More than rounding (`eunoe.workers.stores.vectors.hits.DIGITS`) changes in a score."""
_FIRST_ROWS = 16
_MOST_SPARE = 2_048
"""Rows for which there is room before they come: a quarter of a long conversation's would be megabytes."""
_EXACT_AT_ONCE = 512
"""Rows that are widened to double precision at once: all of a deep search would take ten megabytes."""


class HeldPoint(ABC):
    """A point beside its vector."""

    __slots__ = ("born", "id", "key", "place", "seq")

    def __init__(self, point: Point) -> None:
        self.id, self.key, self.born, self.seq = point.id, point.key, point.born, point.seq
        self.place = -1
        """Its row in the vectors of its group."""

    @property
    @abstractmethod
    def text_digest(self) -> str:
        """The digest of its text."""

    @property
    @abstractmethod
    def weights(self) -> tuple[Sequence[int], Sequence[float]]:
        """The hashes of its terms, and the weight of each."""

    @abstractmethod
    def point(self, vectors: "Group") -> Point:
        """The point; ``vectors`` has its vector."""


class WholePoint(HeldPoint):
    """A point held in a third of its memory: a rebuild keeps those of a whole conversation."""

    __slots__ = ("collection", "digest", "indices", "text", "values")

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.collection, self.text, self.digest = point.collection, point.text, point.digest
        self.indices, self.values = array("I", point.sparse.indices), array("d", point.sparse.values)

    @property
    def text_digest(self) -> str:
        return digest_of_text(self.text) if self.digest is None else self.digest

    @property
    def weights(self) -> tuple[Sequence[int], Sequence[float]]:
        return self.indices, self.values

    def point(self, vectors: "Group") -> Point:
        return Point(
            collection=self.collection,
            id=self.id,
            key=self.key,
            born=self.born,
            seq=self.seq,
            text=self.text,
            dense=vectors.vector(self).astype("<f4").tobytes(),
            sparse=SparseVector(indices=tuple(self.indices), values=tuple(self.values)),
            digest=self.digest,
        )


class Group:
    """The points of a conversation in one collection, with their vectors as the rows of one array."""

    def __init__(self) -> None:
        self._kept: list[HeldPoint] = []
        self._rows: NDArray[np.float32]
        self._born: NDArray[np.int64]
        self._coarse: CoarseScores
        self._clear_rows()

    def add(self, one: HeldPoint, dense: bytes) -> None:
        """Add a point that is not there, with its vector."""
        self._kept.append(one)
        self._make_room(len(dense) // 4)
        self._set(len(self._kept) - 1, one, np.frombuffer(dense, "<f4"))

    def drop(self, one: HeldPoint) -> None:
        """Remove a point; the last one takes its place."""
        last = self._kept.pop()
        if last is not one:
            self._set(one.place, last, self._rows[last.place])

    def by_id(self) -> list[HeldPoint]:
        """The points, by id."""
        return sorted(self._kept, key=attrgetter("id"))

    def vector(self, one: HeldPoint) -> NDArray[np.float32]:
        """The vector of a point, of shape (dimensions,)."""
        found: NDArray[np.float32] = self._rows[one.place]
        return found

    def sharing(self, search: Search) -> list[tuple[str, float]]:
        """The points that share a term with the query, with their scores."""
        query = {} if search.sparse is None else dict(zip(search.sparse.indices, search.sparse.values, strict=True))
        before = search.born_before
        return _sparse_scores((one for one in self._kept if before is None or one.born < before), query)

    def nearest(self, searches: Sequence[Search]) -> Iterator[list[tuple[str, float]]]:
        """For each of some searches by vector, all with one ``born_before``: points with their scores, of which the
        best hits are the best.
        """
        if not self._kept:
            return iter([[]] * len(searches))
        count, before = len(self._kept), searches[0].born_before
        places = np.arange(count) if before is None else np.flatnonzero(self._born[:count] < before)
        queries = [search.dense or b"" for search in searches]
        return (
            self._exact(np.frombuffer(query, "<f4"), _best(places, row[places], search.limit))
            for query, row, search in zip(queries, self._coarse.of(queries, self._rows[:count]), searches, strict=True)
        )

    def _exact(self, query: NDArray[np.float32], places: NDArray[np.int64]) -> list[tuple[str, float]]:
        """Points with their scores, in double precision.

        Those of a product of many rows are so coarse that close ones change places, and then a rebuild finds other
        memories than the server did.
        """
        wide, scores = query.astype(np.float64), np.empty(len(places))
        for first in range(0, len(places), _EXACT_AT_ONCE):
            some = slice(first, first + _EXACT_AT_ONCE)
            scores[some] = self._rows[places[some]].astype(np.float64) @ wide
        return [(self._kept[at].id, score) for at, score in zip(places.tolist(), scores.tolist(), strict=True)]

    def _clear_rows(self) -> None:
        self._rows, self._born = np.empty((0, 0), np.float32), np.empty(0, np.int64)
        self._coarse = CoarseScores()

    def _set(self, place: int, one: HeldPoint, vector: NDArray[np.float32]) -> None:
        one.place = place
        self._kept[place] = one
        self._rows[place] = vector
        self._born[place] = one.born
        self._coarse.change(place)

    def _make_room(self, dimensions: int) -> None:
        if len(self._kept) <= len(self._born):
            return
        size = max(_FIRST_ROWS, min(5 * len(self._born) // 4, len(self._born) + _MOST_SPARE))
        # in place: a copy of the rows of a long conversation beside them would be the most that a rebuild holds
        self._rows.resize((size, dimensions), refcheck=False)
        self._born.resize(size, refcheck=False)


class PointsView(Sequence[Point]):
    """Points that are made when somebody asks for them: as `Point` each takes twice the memory."""

    def __init__(self, group: Group, kept: Sequence[HeldPoint]) -> None:
        self._group = group
        self._kept = kept

    def __len__(self) -> int:
        """The number of points."""
        return len(self._kept)

    @overload
    def __getitem__(self, place: int) -> Point: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Point]: ...

    def __getitem__(self, place: int | slice) -> Point | Sequence[Point]:
        """The point at a place, or those of a slice; raises ``IndexError``."""
        if isinstance(place, slice):
            return PointsView(self._group, self._kept[place])
        return self._kept[place].point(self._group)


def _best(places: NDArray[np.int64], scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Those of the places among which the ``limit`` best are, whatever rounding changes in their scores."""
    if not 0 < limit < len(scores):
        return places
    best: NDArray[np.int64] = places[scores >= np.partition(scores, -limit)[-limit] - _ROUNDED]
    return best


def _sparse_scores(points: Iterable[HeldPoint], query: Mapping[int, float]) -> list[tuple[str, float]]:
    """The scores of the points that share a term with the query, as in Qdrant."""
    found = []
    for point in points:
        indices, values = point.weights
        if query.keys().isdisjoint(indices):
            continue
        products = [query[index] * value for index, value in zip(indices, values, strict=True) if index in query]
        found.append((point.id, float(sum(products))))
    return found
