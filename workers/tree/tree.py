"""Growing the tree: insertion and marking, on the part of the tree that has been read. Pure.

Insertion and marking are generators: they yield what they need to read next and go on when it is in the
`Growth`. On a tree that is wholly there they yield nothing.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.errors import TornRead
from eunoe.schemas.ports import Vectors
from eunoe.workers.tree.nodes import MAX_SPEAKERS, ROOT, TreeNode
from eunoe.workers.tree.settings import TreeSettings

Row = NDArray[np.float32]
"""Shape (dimensions,)."""

DIGITS = 6
"""Digits of a cosine that count: engines sum floats in different orders."""


@dataclass(frozen=True, slots=True)
class LeafEntry:
    """What a new leaf holds."""

    id: str
    text: str
    speakers: tuple[str, ...]
    at: datetime
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """What must be read before the next step: whole nodes, or only the vectors of some."""

    nodes: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()


Steps = Generator[Need, None, "Insertion"]


@dataclass(frozen=True, slots=True)
class Insertion:
    """What one insertion did."""

    leaf: str
    path: tuple[str, ...]
    """From the root to the node where the descent ended."""
    created: tuple[str, ...]
    """The new leaf, and the new parent where the descent reached a leaf."""
    touched: tuple[str, ...]
    """Every ancestor of the new leaf but the root: what has to be aggregated."""
    comparisons: int
    diversions: int


@dataclass(slots=True)
class Growth:
    """A session's working copy of the part of a tree that it reads, with all that it changes."""

    session: int
    """The session that changes it last: of a late one the last that is applied."""
    make_id: Callable[[int], str]
    """The id of the session's n-th new node."""
    nodes: dict[str, TreeNode] = field(default_factory=lambda: {ROOT: TreeNode(node_id=ROOT)})
    vectors: dict[str, Row] = field(default_factory=dict)
    sums: dict[str, Row] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    """All nodes whose documents are new, in order."""
    fresh: dict[str, list[str]] = field(default_factory=dict)
    """Touched node → the leaves that are new below it."""
    dropped: dict[str, list[str]] = field(default_factory=dict)
    """Touched node → the leaves below it that no longer hold."""
    insertions: list[Insertion] = field(default_factory=list)
    late: int | None = None
    """The number of a late session."""

    @property
    def born(self) -> int:
        """The session that the new nodes come from."""
        return self.session if self.late is None else self.late

    def put(self, node: TreeNode) -> None:
        """Set a node of this session's making."""
        self.nodes[node.node_id] = node.model_copy(update={"changed": self.session})
        self.changed[node.node_id] = None

    def new_id(self) -> str:
        """The id of the next new node."""
        self.created.append(self.make_id(len(self.created)))
        return self.created[-1]

    def rows(self, ids: Sequence[str]) -> Vectors:
        """The vectors of nodes, shape (n, dimensions)."""
        return np.stack([self.vectors[id_] for id_ in ids])

    @property
    def touched(self) -> list[str]:
        """The nodes to aggregate, the shallowest first, those of a depth by id."""
        found = {*self.fresh, *self.dropped}
        return sorted(found, key=lambda id_: (self.nodes[id_].depth, id_))


def threshold(base: float, depth: int, settings: TreeSettings) -> float:
    """The similarity that a child of a node at ``depth`` needs (MemTree, A.1.3); above 1 nothing has it."""
    return base * math.exp(settings.rate * depth / settings.d_max)


def base_threshold(vectors: Vectors, settings: TreeSettings) -> float:
    """The base threshold of a conversation: a quantile of the cosines of all pairs of ``vectors`` (n, d), clipped."""
    above = np.triu_indices(len(vectors), k=1)
    wide = vectors.astype(np.float64)
    found = float(np.quantile((wide @ wide.T)[above], settings.quantile))
    return round(min(max(found, settings.lowest_threshold), settings.highest_threshold), 4)


def best_child(children: Sequence[str], rows: Vectors, vector: Row) -> tuple[str, float]:
    """The most similar child and its cosine; of equal ones the smallest id."""
    cosines = np.round(rows.astype(np.float64) @ vector.astype(np.float64), DIGITS)
    best = min(range(len(children)), key=lambda place: (-cosines[place], children[place]))
    return children[best], float(cosines[best])


def insert(growth: Growth, entry: LeafEntry, vector: Row, base: float, settings: TreeSettings) -> Steps:
    """Insert an entry with its unit vector (MemTree, Algorithm 1 as section 3.1 reads it).

    Descends to the most similar child at or above the threshold of the depth, or at a full node to the most
    similar one whatever its cosine. A leaf that is reached becomes the child of a new parent of both; else the
    new leaf hangs under the node where no child was similar enough.
    """
    path, comparisons, diversions = [ROOT], 0, 0
    while (node := growth.nodes[path[-1]]).children:
        if missing := tuple(id_ for id_ in node.children if id_ not in growth.vectors):
            yield Need(vectors=missing)
        child, cosine = best_child(node.children, growth.rows(node.children), vector)
        comparisons += len(node.children)
        if cosine < threshold(base, node.depth, settings):
            if len(node.children) < settings.fan_out:
                break
            diversions += 1
        if child in path:
            raise TornRead(f"tree node {child} is its own ancestor")
        path.append(child)
        if child not in growth.nodes:
            yield Need(nodes=(child,))
    leaf = growth.new_id()
    ancestors = _make_room(growth, path, leaf)
    _hang(growth, ancestors, leaf, entry, vector)
    growth.insertions.append(
        Insertion(
            leaf=leaf,
            path=tuple(path),
            created=(leaf,) if ancestors[-1] == path[-1] else (leaf, ancestors[-1]),
            touched=tuple(ancestors[1:]),
            comparisons=comparisons,
            diversions=diversions,
        )
    )
    return growth.insertions[-1]


def _make_room(growth: Growth, path: Sequence[str], leaf: str) -> list[str]:
    """The ancestors of the new leaf from the root on, the last of them having it among its children."""
    end = growth.nodes[path[-1]]
    if not end.is_leaf:
        growth.put(end.model_copy(update={"children": (*end.children, leaf)}))
        return list(path)
    parent_id = growth.new_id()
    above = growth.nodes[path[-2]]
    siblings = tuple(parent_id if id_ == end.node_id else id_ for id_ in above.children)
    growth.put(above.model_copy(update={"children": siblings}))
    growth.put(
        TreeNode(
            node_id=parent_id,
            parent=above.node_id,
            children=(end.node_id, leaf),
            depth=end.depth,
            descendants=1,
            speakers=end.speakers,
            first_at=end.first_at,
            last_at=end.last_at,
            created=growth.born,
        )
    )
    growth.put(end.model_copy(update={"parent": parent_id, "depth": end.depth + 1}))
    old = growth.vectors[end.node_id]
    growth.vectors[parent_id] = old
    growth.sums[parent_id] = np.zeros_like(old) if end.ended else old
    growth.fresh[parent_id] = [end.node_id]
    return [*path[:-1], parent_id]


def _hang(growth: Growth, ancestors: Sequence[str], leaf: str, entry: LeafEntry, vector: Row) -> None:
    """Set the new leaf, and tell all above it."""
    parent = growth.nodes[ancestors[-1]]
    growth.put(
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
            created=growth.born,
        )
    )
    growth.vectors[leaf] = vector
    if not parent.text and parent.parent is not None and len(parent.children) == 2:
        growth.vectors[parent.node_id] = _unit(growth.vectors[parent.children[0]] + vector)
    for id_ in ancestors:
        growth.put(_grown(growth.nodes[id_], entry))
        if id_ != ROOT:
            growth.fresh.setdefault(id_, []).append(leaf)
            if not entry.ended:
                growth.sums[id_] = growth.sums[id_] + vector


def _grown(node: TreeNode, entry: LeafEntry) -> TreeNode:
    first = entry.at if node.first_at is None else min(node.first_at, entry.at)
    last = entry.at if node.last_at is None else max(node.last_at, entry.at)
    speakers = tuple(dict.fromkeys((*node.speakers, *entry.speakers)))[:MAX_SPEAKERS]
    more = {"descendants": node.descendants + 1, "first_at": first, "last_at": last, "speakers": speakers}
    return node.model_copy(update=more)


def _unit(row: Row) -> Row:
    """``row`` with length one; a row without direction as it is."""
    length = float(np.linalg.norm(row))
    return row if length < 1e-9 else (row / length).astype(np.float32)


def mark_ended(growth: Growth, leaf: str) -> Generator[Need, None, None]:
    """Mark a leaf whose memory no longer holds, and touch all its ancestors but the root."""
    if leaf not in growth.nodes:
        yield Need(nodes=(leaf,))
    node = growth.nodes[leaf]
    if node.ended:
        return
    if leaf not in growth.vectors:
        yield Need(vectors=(leaf,))
    growth.put(node.model_copy(update={"ended": True}))
    above, passed = node.parent, {leaf}
    while above is not None and above != ROOT:
        if above in passed:
            raise TornRead(f"tree node {above} is its own ancestor")
        passed.add(above)
        if above not in growth.nodes:
            yield Need(nodes=(above,))
        growth.sums[above] = growth.sums[above] - growth.vectors[leaf]
        growth.dropped.setdefault(above, []).append(leaf)
        above = growth.nodes[above].parent
