"""Makes the points of a tree's nodes again from the stored documents."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from eunoe.schemas.decisions import Collection, Point, SparseVector
from eunoe.schemas.documents import read_document
from eunoe.workers.stage import Dependencies
from eunoe.workers.text.names import first_speakers
from eunoe.workers.text.terms import document_vector, terms
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import NAME, NODES, VECTORS, TreeNode
from eunoe.workers.tree.settings import TreeSettings


async def restore_points(dependencies: Dependencies, key: str) -> Sequence[Point]:
    """The points of a conversation's tree, as the stage made them; vectors are stored.

    Raises `StateDamaged` where one is not, `Unavailable`.
    """
    rows = await dependencies.store.scan(NAME, key, NODES)
    nodes = [node for node in (read_document(TreeNode, row, key) for row in rows.values()) if node.parent is not None]
    reader = TreeReader(dependencies.store, key, dependencies.embedder.dimensions)
    vectors = await reader.rows(VECTORS, [node.node_id for node in nodes])
    names = _names_then(nodes)
    average = dependencies.settings.of(TreeSettings).average_terms
    return [
        Point(
            collection=Collection.TREE,
            id=node.node_id,
            key=key,
            born=node.created,
            seq=node.changed,
            text=node.text,
            dense=vectors[node.node_id].astype("<f4").tobytes(),
            sparse=document_vector(terms(node.text, drop=names[node.created]), average)
            if node.is_leaf
            else SparseVector(),
        )
        for node in nodes
    ]


def _names_then(nodes: Sequence[TreeNode]) -> Mapping[int, tuple[str, ...]]:
    """Session → the speakers known when it was applied; their names are no terms of its leaves."""
    known: tuple[str, ...] = ()
    found: dict[int, tuple[str, ...]] = {}
    for session, made in groupby(sorted(nodes, key=lambda node: node.created), key=lambda node: node.created):
        found[session] = known = first_speakers(known, *(node.speakers for node in made))
    return found
