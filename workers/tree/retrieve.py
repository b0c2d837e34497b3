"""Ranks the hits of a search of the tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.errors import TornRead
from eunoe.schemas.ports import Hit
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.settings import TreeRecallSettings

SCORE_DIGITS = 4
"""Digits to which scores are rounded: a z-score amplifies rounding differences of engines."""


@dataclass(frozen=True, slots=True)
class TreeHit:
    """A result: a leaf, or an aggregate that represents its leaves."""

    node_id: str
    entry: str | None
    """The id of the memory of a leaf; `None` for an aggregate."""
    score: float
    depth: int
    text: str
    covers: int
    """Number of leaves it represents beyond those of hits below it; 1 for a leaf."""


def ancestors_of(node: TreeNode, nodes: Mapping[str, TreeNode]) -> tuple[str, ...]:
    """The ids of a node's ancestors except the root, the parent first.

    ``nodes`` contains them all. Raises `TornRead` for a cycle.
    """
    found: list[str] = []
    while node.parent is not None and node.parent != ROOT:
        if node.parent in found:
            raise TornRead(f"tree node {node.parent} is its own ancestor")
        found.append(node.parent)
        node = nodes[node.parent]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class NodeScores:
    """The scores of a leaf or an aggregate for the question."""

    dense: float
    """The cosine."""
    bm25: float
    """0 if it was not found by its words; of an aggregate that of its best leaf."""
    ancestors: float | None
    """The mean cosine of its ancestors; `None` if it has none except the root."""


def rank_nodes(found: Mapping[str, NodeScores], settings: TreeRecallSettings) -> list[Hit]:
    """Rank nodes by the sum of z-scores of cosine, BM25 and (weighted) the ancestors' mean cosine; ties by id.

    A node without ancestors gets 0 for that feature.
    """
    ids = sorted(found)
    scores = z_scores([found[id_].dense for id_ in ids]) + z_scores([found[id_].bm25 for id_ in ids])
    means = [found[id_].ancestors for id_ in ids]
    above = [place for place, mean in enumerate(means) if mean is not None]
    scores[above] += settings.ancestor_weight * z_scores([mean for mean in means if mean is not None])
    ranked = [Hit(id_, round(float(score), SCORE_DIGITS) + 0.0) for id_, score in zip(ids, scores, strict=True)]
    return sorted(ranked, key=lambda hit: (-hit.score, hit.id))


def z_scores(values: Sequence[float]) -> NDArray[np.float64]:
    """Each value's distance from the mean in standard deviations; zeros if all are equal."""
    row = np.asarray(values, dtype=np.float64)
    spread = float(row.std()) if len(row) else 0.0
    return (row - row.mean()) / spread if spread > 1e-12 else np.zeros(len(row))


def collapse(ranked: Sequence[Hit], nodes: Mapping[str, TreeNode], settings: TreeRecallSettings) -> list[TreeHit]:
    """The first of a ranking of leaves and aggregates, without duplicates (MemTree, section 3.2).

    ``nodes`` contains the hits and all their ancestors. Deeper nodes are preferred: an aggregate stays only if enough
    of its leaves are not covered by hits below it. Best first.
    """
    found = ranked[: settings.limit]
    covered: dict[str, int] = {}
    kept: list[TreeHit] = []
    for hit in sorted(found, key=lambda hit: (-nodes[hit.id].depth, hit.id)):
        node = nodes[hit.id]
        leaves = max(node.descendants, 1)
        news = leaves - covered.get(hit.id, 0)
        if news < max(1.0, settings.least_news * leaves):
            continue
        kept.append(TreeHit(hit.id, node.entry, hit.score, node.depth, node.text, news))
        for id_ in ancestors_of(node, nodes):
            covered[id_] = covered.get(id_, 0) + news
    return sorted(kept, key=lambda hit: (-hit.score, -hit.depth, hit.node_id))


def may_stand(node: TreeNode) -> bool:
    """Whether an inner node may be a result: a model wrote it. An extract only repeats a few of its leaves."""
    made_by = node.made_by
    return not node.is_leaf and made_by is not None and made_by.prompt is not None and not made_by.fallback
