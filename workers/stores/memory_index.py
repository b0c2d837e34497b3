"""In-memory vector index: exact, with the rules of the server."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import Hit, Search
from eunoe.workers.stores.hits import best_hits

_ROUNDED = 1e-5
"""More than rounding (`eunoe.workers.stores.hits.DIGITS`) changes in a score."""
_FIRST_ROWS = 16


class MemoryIndex:
    """In-memory `VectorIndex`: compares a query with every point of the conversation."""

    def __init__(self) -> None:
        self._made_by: tuple[str, int] | None = None
        self._points: defaultdict[Collection, dict[str, Point]] = defaultdict(dict)
        self._searched: dict[tuple[Collection, str], _Searched] = {}
        """Collection and conversation → its points, once it was searched."""
        self._fences: dict[tuple[Collection, str], int] = {}

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Record the embedder; raises `Refused` where it differs from the first one."""
        if self._made_by is None:
            self._made_by = (embedder, dimensions)
        if self._made_by != (embedder, dimensions):
            raise Refused(f"the index was made with {self._made_by}, not with {(embedder, dimensions)}: rebuild it")

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """Write points; one with a smaller ``seq`` or ``fence`` than the stored one is ignored."""
        for point in points:
            self._check_length(point)
            there, place = self._points[point.collection].get(point.id), (point.collection, point.id)
            most = max(point.seq, (over or {}).get(point.id, 0))
            if (there is None or there.seq <= most) and self._fences.get(place, 0) <= fence:
                self._put(point)
                self._fences[place] = fence if mark else 0

    async def fence_off(self, collection: Collection, ids: Sequence[str], fence: int) -> None:
        """Remove points, and refuse them from now on with a smaller ``fence``."""
        for id_ in ids:
            if self._fences.get((collection, id_), 0) < fence:
                self._drop(collection, id_)
                self._fences[collection, id_] = fence

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search, exact, best first."""
        found: list[list[Hit]] = [[] for _ in searches]
        alike: defaultdict[tuple[Collection, str, int | None], list[int]] = defaultdict(list)
        for place, search in enumerate(searches):
            if search.dense is not None:
                alike[search.collection, search.key, search.born_before].append(place)
            else:
                found[place] = best_hits(self._of(search).sharing(search), search.limit)
        for places in alike.values():
            together = [searches[place] for place in places]
            for place, near in zip(places, self._of(together[0]).nearest(together), strict=True):
                found[place] = best_hits(near, searches[place].limit)
        return found

    async def seqs(self, collection: Collection, key: str, ids: Sequence[str] | None = None) -> Mapping[str, int]:
        """Every point of a conversation, or those of ``ids``: id → seq."""
        points = self._points[collection]
        found = points.values() if ids is None else filter(None, map(points.get, ids))
        return {point.id: point.seq for point in found if point.key == key}

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """Every point of a conversation: id → digest of its text."""
        return {point.id: point.text_digest for point in self._points[collection].values() if point.key == key}

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """Every point of a conversation, by id."""
        return sorted((p for p in self._points[collection].values() if p.key == key), key=lambda point: point.id)

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation; missing ones and those of another conversation are ignored."""
        for id_ in ids:
            if (found := self._points[collection].get(id_)) is not None and found.key == key:
                self._drop(collection, id_)

    def _check_length(self, point: Point) -> None:
        if self._made_by is not None and len(point.dense) != 4 * self._made_by[1]:
            raise ValueError(f"point {point.id}: {len(point.dense) // 4} dimensions, expected {self._made_by[1]}")

    def _put(self, point: Point) -> None:
        there = self._points[point.collection].get(point.id)
        if there is not None and there.key != point.key:
            self._drop(point.collection, point.id)
        self._points[point.collection][point.id] = point
        if (searched := self._searched.get((point.collection, point.key))) is not None:
            searched.put(point)

    def _drop(self, collection: Collection, id_: str) -> None:
        there = self._points[collection].pop(id_, None)
        if there is not None and (searched := self._searched.get((collection, there.key))) is not None:
            searched.drop(id_)

    def _of(self, search: Search) -> "_Searched":
        place = (search.collection, search.key)
        searched = self._searched.get(place)
        if searched is None:
            searched = self._searched[place] = _Searched()
            for point in self._points[search.collection].values():
                if point.key == search.key:
                    searched.put(point)
        return searched


class _Searched:
    """The points of a conversation in one collection, with their vectors as the rows of one array."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._places: dict[str, int] = {}
        self._rows: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self._born: NDArray[np.int64] = np.empty(0, np.int64)

    def put(self, point: Point) -> None:
        """Add a point, or replace the one of its id."""
        place = self._places.setdefault(point.id, len(self._points))
        if place == len(self._points):
            self._points.append(point)
            self._make_room(len(point.dense) // 4)
        self._set(place, point)

    def drop(self, id_: str) -> None:
        """Remove a point; the last one takes its place."""
        place, last = self._places.pop(id_), self._points.pop()
        if place < len(self._points):
            self._places[last.id] = place
            self._set(place, last)

    def sharing(self, search: Search) -> list[tuple[str, float]]:
        """The points that share a term with the query, with their scores."""
        query = {} if search.sparse is None else dict(zip(search.sparse.indices, search.sparse.values, strict=True))
        before = search.born_before
        return _sparse_scores((p for p in self._points if before is None or p.born < before), query)

    def nearest(self, searches: Sequence[Search]) -> Iterator[list[tuple[str, float]]]:
        """For each of some searches by vector, all with one ``born_before``: points with their scores, of which the
        best hits are the best.
        """
        if not self._points:
            return iter([[]] * len(searches))
        count, before = len(self._points), searches[0].born_before
        places = np.arange(count) if before is None else np.flatnonzero(self._born[:count] < before)
        queries = np.frombuffer(b"".join([search.dense or b"" for search in searches]), "<f4")
        queries = queries.reshape(len(searches), -1)
        scores = (self._rows[:count] @ queries.T).T  # one product for all: it reads the rows once
        return (
            self._exact(query, _best(places, row[places], search.limit))
            for query, row, search in zip(queries, scores, searches, strict=True)
        )

    def _exact(self, query: NDArray[np.float32], places: NDArray[np.int64]) -> list[tuple[str, float]]:
        """Points with their scores, in double precision.

        Those of a product of many rows are so coarse that close ones change places, and then a rebuild finds other
        memories than the server did.
        """
        scores = self._rows[places].astype(np.float64) @ query.astype(np.float64)
        return [(self._points[at].id, score) for at, score in zip(places.tolist(), scores.tolist(), strict=True)]

    def _set(self, place: int, point: Point) -> None:
        self._points[place] = point
        self._rows[place] = np.frombuffer(point.dense, "<f4")
        self._born[place] = point.born

    def _make_room(self, dimensions: int) -> None:
        if len(self._points) <= len(self._born):
            return
        size = max(_FIRST_ROWS, 3 * len(self._born) // 2)
        rows, born = np.empty((size, dimensions), np.float32), np.empty(size, np.int64)
        rows[: len(self._born)] = self._rows.reshape(len(self._born), dimensions)
        born[: len(self._born)] = self._born
        self._rows, self._born = rows, born


def _best(places: NDArray[np.int64], scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Those of the places among which the ``limit`` best are, whatever rounding changes in their scores."""
    if not 0 < limit < len(scores):
        return places
    best: NDArray[np.int64] = places[scores >= np.partition(scores, -limit)[-limit] - _ROUNDED]
    return best


def _sparse_scores(points: Iterable[Point], query: Mapping[int, float]) -> list[tuple[str, float]]:
    """The scores of the points that share a term with the query, as in Qdrant."""
    found = []
    for point in points:
        if query.keys().isdisjoint(point.sparse.indices):
            continue
        weights = zip(point.sparse.indices, point.sparse.values, strict=True)
        products = [query[index] * value for index, value in weights if index in query]
        if products:
            found.append((point.id, float(sum(products))))
    return found
