"""Reading no more of the tree than a session's insertions look at. Thin."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from eunoe.schemas.decisions import Work
from eunoe.schemas.identity import derive_id
from eunoe.schemas.ports import StateStore
from eunoe.workers.tree.nodes import (
    LEAVES,
    NAME,
    NODES,
    ROOT,
    STATS,
    SUMS,
    VECTORS,
    Dense,
    LeafRef,
    TreeNode,
    TreeStats,
)
from eunoe.workers.tree.tree import Growth, Need, Row

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TreeReader:
    """Reads the tree of one conversation."""

    store: StateStore
    key: str

    async def stats(self) -> TreeStats:
        """What is known of the whole tree; empty where there is none."""
        (text,) = await self.store.fetch(NAME, self.key, STATS, [STATS])
        return TreeStats() if text is None else TreeStats.from_json(text)

    async def open(self, work: Work[Any], stats: TreeStats) -> Growth:
        """The working copy of a session: at first only the root."""
        late = f"late/{stats.nodes}/" if work.late else ""
        growth = Growth(work.seq, lambda n: derive_id(self.key, work.number, NAME, f"{late}{n}"))
        growth.late = work.number if work.late else None
        growth.nodes |= await self.nodes([ROOT])
        return growth

    async def drive(self, growth: Growth, steps: Generator[Need, None, R]) -> R:
        """Run an insertion or a marking to its end, reading what it needs on its way."""
        try:
            while True:
                await self._load(growth, next(steps))
        except StopIteration as end:
            result: R = end.value
            return result

    async def _load(self, growth: Growth, need: Need) -> None:
        if need.nodes:
            growth.nodes |= await self.nodes(need.nodes)
            growth.sums |= await self.rows(SUMS, need.nodes)
        if need.vectors:
            growth.vectors |= await self.rows(VECTORS, need.vectors)

    async def nodes(self, ids: Sequence[str]) -> dict[str, TreeNode]:
        """Id → node, of those that there are."""
        rows = await self.store.fetch(NAME, self.key, NODES, ids)
        return {id_: TreeNode.from_json(row) for id_, row in zip(ids, rows, strict=True) if row is not None}

    async def rows(self, table: str, ids: Sequence[str]) -> dict[str, Row]:
        """Id → vector of a table of vectors, of those that there are."""
        rows = await self.store.fetch(NAME, self.key, table, ids) if ids else []
        return {id_: read_row(row) for id_, row in zip(ids, rows, strict=True) if row is not None}

    async def leaves(self, entries: Sequence[str]) -> dict[str, str]:
        """Entry id → node id, of those that have a leaf."""
        rows = await self.store.fetch(NAME, self.key, LEAVES, entries) if entries else []
        found = zip(entries, rows, strict=True)
        return {entry: LeafRef.from_json(row).node_id for entry, row in found if row is not None}

    async def first_leaves(self) -> list[str]:
        """All leaves of a tree that is still small, by id."""
        refs = await self.store.scan(NAME, self.key, LEAVES)
        return sorted(LeafRef.from_json(row).node_id for row in refs.values())


def read_row(text: str) -> Row:
    """The vector of a document."""
    return np.frombuffer(Dense.from_json(text).dense, "<f4").astype(np.float32)


def write_row(row: Row) -> Dense:
    """The document of a vector."""
    return Dense(dense=row.astype("<f4").tobytes())
