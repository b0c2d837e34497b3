"""Marking of ended leaves, and what nodes above them can tell instead, on the loaded part of the tree.

Generators, as insertions are (`eunoe.workers.tree.tree`).
"""

from collections.abc import Generator, Sequence

from eunoe.schemas.errors import TornRead
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.tree import ReadRequest, WorkingTree, with_current

MAX_LOOKED_AT = 64
"""Most nodes whose children are loaded to find an entry that holds: those of one path."""


def mark_ended(tree: WorkingTree, leaf: str, said_by: str | None = None) -> Generator[ReadRequest, None, None]:
    """Mark a leaf as ended, and all its ancestors except the root for aggregation. Raises `TornRead` for a cycle.

    ``said_by``: the id of the entry that says all of it too, if there is one.
    """
    yield from _loaded(tree, (leaf,))
    node = tree.nodes[leaf]
    if node.ended:
        return
    if leaf not in tree.vectors:
        yield ReadRequest(vectors=(leaf,))
    tree.put(node.model_copy(update={"ended": True, "said_by": said_by}))
    above, passed = node.parent, {leaf}
    siblings: tuple[str, ...] = ()
    while above is not None and above != ROOT:
        if above in passed:
            raise TornRead(f"tree node {above} is its own ancestor")
        passed.add(above)
        yield from _loaded(tree, (above,))
        if not siblings:
            siblings = tree.nodes[above].children
            yield from _loaded(tree, siblings)
        _drop(tree, above, leaf)
        tree.beside.setdefault(above, []).extend(siblings)
        above = tree.nodes[above].parent


def load_current(tree: WorkingTree) -> Generator[ReadRequest, None, None]:
    """Load an entry that holds below each node that lost one and has no other to tell: its text must state one."""
    for id_ in tree.dropped:
        known = (tree.nodes[one] for one in (*tree.fresh.get(id_, ()), *tree.beside.get(id_, ())) if one in tree.nodes)
        if tree.nodes[id_].current != 0 and not any(_holds(node) for node in known):
            yield from _load_current_below(tree, id_)


def _load_current_below(tree: WorkingTree, id_: str) -> Generator[ReadRequest, None, None]:
    waiting = [id_]
    for _ in range(MAX_LOOKED_AT):
        children = tree.nodes[waiting.pop()].children
        yield from _loaded(tree, children)
        nodes = [tree.nodes[child] for child in children if child in tree.nodes]
        if any(_holds(node) for node in nodes):
            tree.beside.setdefault(id_, []).extend(children)
            return
        waiting += [node.node_id for node in reversed(nodes) if not node.is_leaf and node.current != 0]
        if not waiting:
            return


def _holds(node: TreeNode) -> bool:
    return node.is_leaf and not node.ended


def _loaded(tree: WorkingTree, ids: Sequence[str]) -> Generator[ReadRequest, None, None]:
    """Request the nodes that are not there yet."""
    if missing := tuple(id_ for id_ in ids if id_ not in tree.nodes):
        yield ReadRequest(nodes=missing)


def _drop(tree: WorkingTree, above: str, leaf: str) -> None:
    """Take an ended leaf out of what the node above it sums up."""
    tree.sums[above] = tree.sums[above] - tree.vectors[leaf]
    tree.dropped.setdefault(above, []).append(leaf)
    tree.put(with_current(tree.nodes[above], -1))
