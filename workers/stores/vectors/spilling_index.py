"""A `MemoryIndex` whose points lie in a file: for one very long conversation, most of whose points nobody looks for."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import Search
from eunoe.workers.stores.state.spill_tables import Spill, SpillTable
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.stores.vectors.point_group import Group, HeldPoint

HELD_BYTES: Final = 2_000_000
"""Bytes of points that wait in memory for the next write into the file."""


class SpillingIndex(MemoryIndex):
    """A `MemoryIndex` of which only ids are in memory, and the vectors of collections that were searched by vector.

    At most ``held_bytes`` of points are written at a time. Its methods raise `Unavailable`, too, where the file cannot
    be written; then nothing is changed.
    """

    def __init__(self, held_bytes: int | None = None) -> None:
        super().__init__()
        self._spill = Spill()
        self._most = HELD_BYTES if held_bytes is None else held_bytes
        self._tables = {collection: self._spill.table() for collection in Collection}
        self._groups: defaultdict[tuple[Collection, str], Group] = defaultdict(_SpilledGroup)

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """As that of `MemoryIndex`."""
        # not after some of the points: an upsert that is repeated must find what stood before
        self._spill.make_room(self._tables.values(), self._most)
        await super().upsert(points, fence, mark=mark, over=over)

    def view(self, collection: Collection, key: str) -> Sequence[Point]:
        """As that of `MemoryIndex`. The vectors leave the memory: who wants all points has done searching."""
        if isinstance(group := self._groups.get((collection, key)), _SpilledGroup):
            group.forget_rows()
        return super().view(collection, key)

    def _keep(self, point: Point) -> HeldPoint:
        table = self._tables[point.collection]
        table[point.id] = point.model_dump_json()
        return _Spilled(point, table)

    def _drop(self, collection: Collection, id_: str) -> None:
        if id_ in self._points[collection]:
            self._tables[collection].pop(id_)
        super()._drop(collection, id_)


class _Spilled(HeldPoint):
    """The place of a point that lies in a table."""

    __slots__ = ("table",)

    def __init__(self, point: Point, table: SpillTable) -> None:
        super().__init__(point)
        self.table = table

    @property
    def text_digest(self) -> str:
        return self.read().text_digest

    @property
    def weights(self) -> tuple[Sequence[int], Sequence[float]]:
        sparse = self.read().sparse
        return sparse.indices, sparse.values

    def point(self, vectors: Group) -> Point:
        del vectors
        return self.read()

    def read(self) -> Point:
        """The point; it does not stay in memory."""
        return Point.from_json(self.table.peek(self.id))


class _SpilledGroup(Group):
    """Points whose vectors are in memory from a search for the nearest on, until they are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._has_rows = False

    def add(self, one: HeldPoint, dense: bytes) -> None:
        """Add a point that is not there."""
        if self._has_rows:
            super().add(one, dense)
            return
        one.place = len(self._kept)
        self._kept.append(one)

    def drop(self, one: HeldPoint) -> None:
        """Remove a point; the last one takes its place."""
        if self._has_rows:
            super().drop(one)
            return
        last = self._kept.pop()
        if last is not one:
            last.place = one.place
            self._kept[one.place] = last

    def nearest(self, searches: Sequence[Search]) -> Iterator[list[tuple[str, float]]]:
        """As that of `Group`."""
        if not self._has_rows:
            self._read_rows()
        return super().nearest(searches)

    def forget_rows(self) -> None:
        """Give the memory of the vectors back; the next search reads them again."""
        self._clear_rows()
        self._has_rows = False

    def _read_rows(self) -> None:
        kept, self._kept = self._kept, []
        try:
            for one in kept:
                super().add(one, one.point(self).dense)
        except Unavailable:
            self._kept = kept  # to be read again: a search over some of the points would find others
            raise
        self._has_rows = True
