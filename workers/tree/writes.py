"""Builds the documents and points of a session's changes."""

from collections.abc import Mapping, Sequence

from eunoe.schemas.decisions import Collection, Point, Put, SparseVector, Write
from eunoe.workers.text.terms import document_vector
from eunoe.workers.tree.loading import encode_sum, encode_vector
from eunoe.workers.tree.nodes import (
    LEAVES,
    NODES,
    STATS,
    SUMS,
    VECTORS,
    LeafRef,
    TreeStats,
)
from eunoe.workers.tree.tree import WorkingTree


def node_writes(tree: WorkingTree) -> list[Write]:
    """The writes for all changed nodes, their vectors and sums."""
    spoken = _rewritten(tree)
    writes: list[Write] = [Put.of(NODES, id_, tree.nodes[id_]) for id_ in tree.changed]
    writes += [Put.of(VECTORS, id_, encode_vector(tree.vectors[id_])) for id_ in spoken]
    writes += [Put.of(SUMS, id_, encode_sum(tree.sums[id_])) for id_ in tree.touched]
    leaves = (tree.nodes[insertion.leaf] for insertion in tree.insertions)
    writes += [Put.of(LEAVES, leaf.entry, LeafRef(node_id=leaf.node_id)) for leaf in leaves if leaf.entry]
    return writes


def _rewritten(tree: WorkingTree) -> list[str]:
    """The nodes with new text or vector: new leaves and aggregated nodes."""
    return [*(insertion.leaf for insertion in tree.insertions), *tree.touched]


def points_of(
    key: str, tree: WorkingTree, terms: Mapping[str, Sequence[str]], average_terms: float
) -> tuple[Point, ...]:
    """The index entries of new leaves and aggregated nodes; ``terms``: leaf id → its terms.

    Aggregates have no terms in the index: they would rank before the leaves whose words they repeat.
    """
    return tuple(
        Point(
            collection=Collection.TREE,
            id=id_,
            key=key,
            born=tree.nodes[id_].created,
            seq=tree.session,
            text=tree.nodes[id_].text,
            dense=tree.vectors[id_].astype("<f4").tobytes(),
            sparse=document_vector(terms[id_], average_terms) if id_ in terms else SparseVector(),
        )
        for id_ in _rewritten(tree)
    )


def stats_write(stats: TreeStats, tree: WorkingTree, base: float | None, names: tuple[str, ...]) -> Write:
    """The write of the tree's statistics after the session."""
    depths = (tree.nodes[id_].depth for id_ in tree.changed)
    after = TreeStats(
        session=tree.session,
        leaves=stats.leaves + len(tree.insertions),
        nodes=stats.nodes + len(tree.created),
        depth=max((stats.depth, *depths)),
        base_threshold=base,
        diversions=stats.diversions + sum(insertion.diversions for insertion in tree.insertions),
        comparisons=stats.comparisons + sum(insertion.comparisons for insertion in tree.insertions),
        speakers=names,
    )
    return Put.of(STATS, STATS, after)
