"""In-memory vector index: exact, with the rules of the server."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import Refused
from eunoe.schemas.ports import Hit, Search
from eunoe.workers.stores.vectors.hits import best_hits
from eunoe.workers.stores.vectors.point_group import Group, HeldPoint, PointsView, WholePoint


class MemoryIndex:
    """In-memory `VectorIndex`: compares a query with every point of the conversation."""

    def __init__(self) -> None:
        self._made_by: tuple[str, int] | None = None
        self._points: defaultdict[Collection, dict[str, HeldPoint]] = defaultdict(dict)
        self._groups: defaultdict[tuple[Collection, str], Group] = defaultdict(Group)
        """Collection and conversation → its points."""
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
                if mark:
                    self._fences[place] = fence
                else:
                    self._fences.pop(place, None)

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
            if (group := self._groups.get((search.collection, search.key))) is None:
                continue
            if search.dense is not None:
                alike[search.collection, search.key, search.born_before].append(place)
            else:
                found[place] = best_hits(group.sharing(search), search.limit)
        for (collection, key, _), places in alike.items():
            together = [searches[place] for place in places]
            for place, near in zip(places, self._groups[collection, key].nearest(together), strict=True):
                found[place] = best_hits(near, searches[place].limit)
        return found

    async def seqs(self, collection: Collection, key: str, ids: Sequence[str] | None = None) -> Mapping[str, int]:
        """Every point of a conversation, or those of ``ids``: id → seq."""
        points = self._points[collection]
        found = points.values() if ids is None else filter(None, map(points.get, ids))
        return {one.id: one.seq for one in found if one.key == key}

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """Every point of a conversation: id → digest of its text."""
        return {one.id: one.text_digest for one in self._points[collection].values() if one.key == key}

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """Every point of a conversation, by id."""
        return list(self.view(collection, key))

    def view(self, collection: Collection, key: str) -> Sequence[Point]:
        """Every point of a conversation, by id, each made when somebody asks for it."""
        group = self._groups.get((collection, key))
        return () if group is None else PointsView(group, group.by_id())

    def all_points(self) -> list[Point]:
        """Every point of all conversations, by collection, key and id."""
        return [point for collection, key in sorted(self._groups) for point in self.view(collection, key)]

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation; missing ones and those of another conversation are ignored."""
        for id_ in ids:
            if (found := self._points[collection].get(id_)) is not None and found.key == key:
                self._drop(collection, id_)

    def _check_length(self, point: Point) -> None:
        if self._made_by is not None and len(point.dense) != 4 * self._made_by[1]:
            raise ValueError(f"point {point.id}: {len(point.dense) // 4} dimensions, expected {self._made_by[1]}")

    def _put(self, point: Point) -> None:
        self._drop(point.collection, point.id)
        kept = self._points[point.collection][point.id] = self._keep(point)
        self._groups[point.collection, point.key].add(kept, point.dense)

    def _keep(self, point: Point) -> HeldPoint:
        """The parts of a point that are held beside its vector."""
        return WholePoint(point)

    def _drop(self, collection: Collection, id_: str) -> None:
        if (there := self._points[collection].pop(id_, None)) is not None:
            self._groups[collection, there.key].drop(there)
