"""From a session's growth to documents and points. Pure."""

from collections.abc import Mapping, Sequence

from eunoe.schemas.decisions import Collection, Point, Put, SparseVector, Write
from eunoe.workers.text.terms import document_vector
from eunoe.workers.tree.loading import write_row
from eunoe.workers.tree.nodes import (
    LEAVES,
    NODES,
    STATS,
    SUMS,
    VECTORS,
    LeafRef,
    TreeStats,
)
from eunoe.workers.tree.tree import Growth


def node_writes(growth: Growth) -> list[Write]:
    """The documents of all nodes that the session changed, their vectors and sums."""
    spoken = _spoken(growth)
    writes: list[Write] = [Put.of(NODES, id_, growth.nodes[id_]) for id_ in growth.changed]
    writes += [Put.of(VECTORS, id_, write_row(growth.vectors[id_])) for id_ in spoken]
    writes += [Put.of(SUMS, id_, write_row(growth.sums[id_])) for id_ in growth.touched]
    leaves = (growth.nodes[insertion.leaf] for insertion in growth.insertions)
    writes += [Put.of(LEAVES, leaf.entry, LeafRef(node_id=leaf.node_id)) for leaf in leaves if leaf.entry]
    return writes


def _spoken(growth: Growth) -> list[str]:
    """The nodes whose text or vector is new: the new leaves and all touched nodes."""
    return [*(insertion.leaf for insertion in growth.insertions), *growth.touched]


def points_of(key: str, growth: Growth, terms: Mapping[str, Sequence[str]], average_terms: float) -> tuple[Point, ...]:
    """The index entries of new leaves and touched nodes; ``terms`` are those of new leaves by node id.

    Aggregates have no words of their own in the index: they would stand before the leaves whose words they repeat.
    """
    return tuple(
        Point(
            collection=Collection.TREE,
            id=id_,
            key=key,
            born=growth.nodes[id_].created,
            seq=growth.session,
            text=growth.nodes[id_].text,
            dense=growth.vectors[id_].astype("<f4").tobytes(),
            sparse=document_vector(terms[id_], average_terms) if id_ in terms else SparseVector(),
        )
        for id_ in _spoken(growth)
    )


def stats_write(stats: TreeStats, growth: Growth, base: float | None, names: tuple[str, ...]) -> Write:
    """The tree's numbers after the session."""
    depths = (growth.nodes[id_].depth for id_ in growth.changed)
    after = TreeStats(
        session=growth.session,
        leaves=stats.leaves + len(growth.insertions),
        nodes=stats.nodes + len(growth.created),
        depth=max((stats.depth, *depths)),
        base_threshold=base,
        diversions=stats.diversions + sum(insertion.diversions for insertion in growth.insertions),
        comparisons=stats.comparisons + sum(insertion.comparisons for insertion in growth.insertions),
        speakers=names,
    )
    return Put.of(STATS, STATS, after)
