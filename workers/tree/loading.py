"""Reads the parts of the tree that a session's insertions need."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from eunoe.schemas.decisions import Work
from eunoe.schemas.documents import damaged_document, read_document
from eunoe.schemas.identity import derive_id
from eunoe.schemas.ports import StateStore
from eunoe.workers.models.local.vectors import LEVELS, levels, unit_of_levels
from eunoe.workers.tree.nodes import (
    EMPTY,
    LEAVES,
    NAME,
    NODES,
    ROOT,
    STATS,
    SUMS,
    VECTORS,
    LeafRef,
    StoredVector,
    TreeNode,
    TreeStats,
)
from eunoe.workers.tree.tree import ReadRequest, Vector, WorkingTree

R = TypeVar("R")

_MISSING = "it is missing"


@dataclass(frozen=True, slots=True)
class TreeReader:
    """Reads the tree of one conversation."""

    store: StateStore
    key: str
    dimensions: int = 0
    """Components of each vector; for readers of vectors."""

    async def stats(self) -> TreeStats:
        """The statistics of the tree; empty if there is none."""
        (text,) = await self.store.fetch(NAME, self.key, STATS, [STATS])
        return EMPTY if text is None else read_document(TreeStats, text, self.key)

    async def open(self, work: Work[Any], stats: TreeStats) -> WorkingTree:
        """A new working copy for a session, with only the root loaded; raises `StateDamaged` where that is lost."""
        late = f"late/{stats.nodes}/" if work.late else ""
        tree = WorkingTree(work.state_session, lambda n: derive_id(self.key, work.number, NAME, f"{late}{n}"))
        tree.late = work.number if work.late else None
        root = await self.nodes([ROOT])
        if bool(root) != bool(stats.leaves):  # a tree would begin anew beside the one that stands there
            raise damaged_document(TreeNode if stats.leaves else TreeStats, self.key, _MISSING)
        tree.nodes |= root
        return tree

    async def drive(self, tree: WorkingTree, steps: Generator[ReadRequest, None, R]) -> R:
        """Run an insertion or a marking to its end, loading what it requests."""
        try:
            while True:
                await self._load(tree, next(steps))
        except StopIteration as end:
            result: R = end.value
            return result

    async def _load(self, tree: WorkingTree, need: ReadRequest) -> None:
        if need.nodes:
            found = await self.nodes(need.nodes)
            if len(found) < len(need.nodes):
                raise damaged_document(TreeNode, self.key, _MISSING)
            tree.nodes |= found
            inner = [id_ for id_, node in found.items() if id_ != ROOT and not node.is_leaf]
            tree.sums |= await self.rows(SUMS, inner)
        if need.vectors:
            tree.vectors |= await self.rows(VECTORS, need.vectors)

    async def nodes(self, ids: Sequence[str]) -> dict[str, TreeNode]:
        """Id → node, for the stored ones."""
        rows = await self.store.fetch(NAME, self.key, NODES, ids)
        return {
            id_: read_document(TreeNode, row, self.key) for id_, row in zip(ids, rows, strict=True) if row is not None
        }

    async def rows(self, table: str, ids: Sequence[str]) -> dict[str, Vector]:
        """Id → vector from a table of vectors, for nodes that must have one there; raises `StateDamaged`."""
        rows = await self.store.fetch(NAME, self.key, table, ids) if ids else []
        stored = [row for row in rows if row is not None]
        if len(stored) < len(rows):
            raise damaged_document(StoredVector, self.key, _MISSING)
        return dict(zip(ids, decode_vectors(stored, self.key, self.dimensions), strict=True))

    async def leaves(self, entries: Sequence[str]) -> dict[str, str]:
        """Entry id → node id, for entries that have a leaf."""
        rows = await self.store.fetch(NAME, self.key, LEAVES, entries) if entries else []
        found = zip(entries, rows, strict=True)
        return {entry: read_document(LeafRef, row, self.key).node_id for entry, row in found if row is not None}

    async def first_leaves(self) -> list[str]:
        """The ids of all leaves, sorted; for a small tree."""
        refs = await self.store.scan(NAME, self.key, LEAVES)
        return sorted(read_document(LeafRef, row, self.key).node_id for row in refs.values())


def decode_vectors(texts: Sequence[str], key: str, dimensions: int) -> list[Vector]:
    """The vectors in documents of a conversation, shape (dimensions,) each; raises as `read_document`."""
    found = [read_document(StoredVector, text, key) for text in texts]
    if not all(one.has(dimensions) for one in found):
        raise damaged_document(StoredVector, key, f"not {dimensions} numbers")
    vectors: list[Vector] = [np.empty(0, np.float32)] * len(found)
    units = [place for place, one in enumerate(found) if one.largest is None]
    if units:
        rows = np.frombuffer(b"".join([found[place].levels for place in units]), np.int8).reshape(len(units), -1)
        for place, row in zip(units, unit_of_levels(rows), strict=True):
            vectors[place] = row
    for place, one in enumerate(found):
        if one.largest is not None:
            vectors[place] = np.frombuffer(one.levels, np.int8).astype(np.float32) * np.float32(one.largest / LEVELS)
    return vectors


def encode_vector(row: Vector) -> StoredVector:
    """The document for a unit vector."""
    return StoredVector(levels=levels(row[None]).tobytes())


def encode_sum(row: Vector) -> StoredVector:
    """The document for a sum of vectors."""
    return StoredVector(levels=levels(row[None]).tobytes(), largest=float(np.abs(row).max(initial=0.0)))
