"""The loaded part of the tree, and insertion into it.

An insertion is a generator: it yields a `ReadRequest` and continues when the `WorkingTree` has what it requested. On a
fully loaded tree it yields nothing.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.errors import TornRead
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.text.names import first_speakers
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.settings import TreeSettings

Vector = NDArray[np.float32]
"""Shape (dimensions,)."""

DIGITS = 6
"""Digits to which cosines are rounded: engines sum floats in different orders."""


@dataclass(frozen=True, slots=True)
class LeafEntry:
    """The content of a new leaf."""

    id: str
    text: str
    speakers: tuple[str, ...]
    at: datetime
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Nodes to load before the next step: whole, or only their vectors."""

    nodes: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()


Steps = Generator[ReadRequest, None, "Insertion"]


@dataclass(frozen=True, slots=True)
class Insertion:
    """The result of one insertion."""

    leaf: str
    path: tuple[str, ...]
    """Node ids from the root to where the descent ended."""
    created: tuple[str, ...]
    """The new leaf, and the new parent if the descent reached a leaf."""
    touched: tuple[str, ...]
    """Every ancestor of the new leaf except the root: the nodes to aggregate."""
    comparisons: int
    diversions: int


@dataclass(slots=True)
class WorkingTree:
    """A session's working copy: the loaded part of the tree, and all changes."""

    session: int
    """The session recorded as the last change: for a late one the last applied session."""
    make_id: Callable[[int], str]
    """Maps n to the id of the session's n-th new node."""
    nodes: dict[str, TreeNode] = field(default_factory=lambda: {ROOT: TreeNode(node_id=ROOT)})
    vectors: dict[str, Vector] = field(default_factory=dict)
    sums: dict[str, Vector] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    """Nodes whose documents change, in order."""
    fresh: dict[str, list[str]] = field(default_factory=dict)
    """Node to aggregate → the new leaves below it."""
    dropped: dict[str, list[str]] = field(default_factory=dict)
    """Node to aggregate → the leaves below it that ended."""
    beside: dict[str, list[str]] = field(default_factory=dict)
    """Node to aggregate → loaded nodes below it, siblings of those that ended."""
    insertions: list[Insertion] = field(default_factory=list)
    late: int | None = None
    """The number of the late session, if it is one."""

    @property
    def born(self) -> int:
        """The session that creates the new nodes."""
        return self.session if self.late is None else self.late

    def put(self, node: TreeNode) -> None:
        """Store a changed node."""
        self.nodes[node.node_id] = node.model_copy(update={"changed": self.session})
        self.changed[node.node_id] = None

    def new_id(self) -> str:
        """Reserve the id of the next new node."""
        self.created.append(self.make_id(len(self.created)))
        return self.created[-1]

    def rows(self, ids: Sequence[str]) -> Vectors:
        """The vectors of nodes, shape (n, dimensions)."""
        return np.stack([self.vectors[id_] for id_ in ids])

    @property
    def touched(self) -> list[str]:
        """The nodes to aggregate, the shallowest first, then by id."""
        found = {*self.fresh, *self.dropped}
        return sorted(found, key=lambda id_: (self.nodes[id_].depth, id_))


def threshold(base: float, depth: int, settings: TreeSettings) -> float:
    """The similarity that a child of a node at ``depth`` needs (MemTree, A.1.3); above 1 it is unreachable."""
    return base * math.exp(settings.rate * depth / settings.d_max)


def base_threshold(vectors: Vectors, settings: TreeSettings) -> float:
    """The base threshold: a clipped quantile of the cosines of all pairs of ``vectors`` (n, d)."""
    above = np.triu_indices(len(vectors), k=1)
    wide = vectors.astype(np.float64)
    found = float(np.quantile((wide @ wide.T)[above], settings.quantile))
    return round(min(max(found, settings.lowest_threshold), settings.highest_threshold), 4)


def best_child(children: Sequence[str], rows: Vectors, vector: Vector) -> tuple[str, float]:
    """The most similar child and its cosine; ties by id."""
    cosines = np.round(rows.astype(np.float64) @ vector.astype(np.float64), DIGITS)
    best = min(range(len(children)), key=lambda place: (-cosines[place], children[place]))
    return children[best], float(cosines[best])


def insert(tree: WorkingTree, entry: LeafEntry, vector: Vector, base: float, settings: TreeSettings) -> Steps:
    """Insert an entry with its unit vector (MemTree, Algorithm 1 as section 3.1 describes it).

    Descends to the most similar child at or above the threshold of the depth; at a full node to the most similar one at
    any cosine. If the descent ends at a leaf, a new parent gets both leaves; else the new leaf is added under the last
    node. Raises `TornRead` for a cycle.
    """
    path, comparisons, diversions = [ROOT], 0, 0
    while (node := tree.nodes[path[-1]]).children:
        if missing := tuple(id_ for id_ in node.children if id_ not in tree.vectors):
            yield ReadRequest(vectors=missing)
        child, cosine = best_child(node.children, tree.rows(node.children), vector)
        comparisons += len(node.children)
        if cosine < threshold(base, node.depth, settings):
            if len(node.children) < settings.fan_out:
                break
            diversions += 1
        if child in path:
            raise TornRead(f"tree node {child} is its own ancestor")
        path.append(child)
        if child not in tree.nodes:
            yield ReadRequest(nodes=(child,))
    leaf = tree.new_id()
    ancestors = _place(tree, path, leaf)
    _attach(tree, ancestors, leaf, entry, vector)
    tree.insertions.append(
        Insertion(
            leaf=leaf,
            path=tuple(path),
            created=(leaf,) if ancestors[-1] == path[-1] else (leaf, ancestors[-1]),
            touched=tuple(ancestors[1:]),
            comparisons=comparisons,
            diversions=diversions,
        )
    )
    return tree.insertions[-1]


def _place(tree: WorkingTree, path: Sequence[str], leaf: str) -> list[str]:
    """Add the leaf's id to its parent, a new one if the path ends at a leaf; returns its ancestors from the root."""
    end = tree.nodes[path[-1]]
    if not end.is_leaf:
        tree.put(end.model_copy(update={"children": (*end.children, leaf)}))
        return list(path)
    parent_id = tree.new_id()
    above = tree.nodes[path[-2]]
    siblings = tuple(parent_id if id_ == end.node_id else id_ for id_ in above.children)
    tree.put(above.model_copy(update={"children": siblings}))
    tree.put(
        TreeNode(
            node_id=parent_id,
            parent=above.node_id,
            children=(end.node_id, leaf),
            depth=end.depth,
            descendants=1,
            current=0 if end.ended else 1,
            speakers=end.speakers,
            first_at=end.first_at,
            last_at=end.last_at,
            created=tree.born,
        )
    )
    tree.put(end.model_copy(update={"parent": parent_id, "depth": end.depth + 1}))
    old = tree.vectors[end.node_id]
    tree.vectors[parent_id] = old
    tree.sums[parent_id] = np.zeros_like(old) if end.ended else old
    tree.fresh[parent_id] = [end.node_id]
    return [*path[:-1], parent_id]


def _attach(tree: WorkingTree, ancestors: Sequence[str], leaf: str, entry: LeafEntry, vector: Vector) -> None:
    """Store the new leaf and update its ancestors."""
    parent = tree.nodes[ancestors[-1]]
    tree.put(
        TreeNode(
            node_id=leaf,
            parent=parent.node_id,
            depth=parent.depth + 1,
            text=entry.text,
            entry=entry.id,
            ended=entry.ended,
            speakers=entry.speakers,
            first_at=entry.at,
            last_at=entry.at,
            created=tree.born,
        )
    )
    tree.vectors[leaf] = vector
    if not parent.text and parent.parent is not None and len(parent.children) == 2:
        tree.vectors[parent.node_id] = _unit(tree.vectors[parent.children[0]] + vector)
    for id_ in ancestors:
        tree.put(_with_entry(tree.nodes[id_], entry))
        if id_ != ROOT:
            tree.fresh.setdefault(id_, []).append(leaf)
            if not entry.ended:
                tree.sums[id_] = tree.sums[id_] + vector


def _with_entry(node: TreeNode, entry: LeafEntry) -> TreeNode:
    first = entry.at if node.first_at is None else min(node.first_at, entry.at)
    last = entry.at if node.last_at is None else max(node.last_at, entry.at)
    speakers = first_speakers(node.speakers, entry.speakers)
    more = {"descendants": node.descendants + 1, "first_at": first, "last_at": last, "speakers": speakers}
    return with_current(node, 0 if entry.ended else 1).model_copy(update=more)


def with_current(node: TreeNode, more: int) -> TreeNode:
    """The node with so many more current leaves below it; as it is the root, which counts none."""
    return node if node.current is None else node.model_copy(update={"current": node.current + more})


def _unit(row: Vector) -> Vector:
    """``row`` normalized; a zero vector unchanged."""
    length = float(np.linalg.norm(row))
    return row if length < 1e-9 else (row / length).astype(np.float32)
