"""Ranking what a search of the tree found. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.errors import TornRead
from eunoe.schemas.ports import Hit
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.settings import TreeRecallSettings

SCORE_DIGITS = 4
"""Digits of a ranking score that count: a z-score stretches what an engine rounded."""


@dataclass(frozen=True, slots=True)
class TreeHit:
    """A node that answers a question: a leaf, or an aggregate that stands for leaves."""

    node_id: str
    entry: str | None
    """The id of the memory (or segment) of a leaf; None: an aggregate."""
    score: float
    depth: int
    text: str
    covers: int
    """How many leaves it stands for beyond those of hits below it; 1 for a leaf."""


def ancestors_of(node: TreeNode, nodes: Mapping[str, TreeNode]) -> tuple[str, ...]:
    """The ids of a node's ancestors but the root, the parent first; ``nodes`` holds them all."""
    found: list[str] = []
    while node.parent is not None and node.parent != ROOT:
        if node.parent in found:
            raise TornRead(f"tree node {node.parent} is its own ancestor")
        found.append(node.parent)
        node = nodes[node.parent]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class LeafScores:
    """How a leaf stands to the question."""

    dense: float
    """The cosine."""
    bm25: float
    """0 where the leaf was not found by its words."""
    ancestors: float | None
    """The mean cosine of its ancestors; None where it has none beside the root."""


def rank_leaves(leaves: Mapping[str, LeafScores], settings: TreeRecallSettings) -> list[Hit]:
    """Leaves by the sum of the z-scores of cosine, BM25 and (weighted) the ancestors' mean cosine; ties by id.

    A leaf that has no ancestors is neither helped nor harmed by them.
    """
    ids = sorted(leaves)
    scores = z_scores([leaves[id_].dense for id_ in ids]) + z_scores([leaves[id_].bm25 for id_ in ids])
    means = [leaves[id_].ancestors for id_ in ids]
    above = [place for place, mean in enumerate(means) if mean is not None]
    scores[above] += settings.ancestor_weight * z_scores([mean for mean in means if mean is not None])
    ranked = [Hit(id_, round(float(score), SCORE_DIGITS) + 0.0) for id_, score in zip(ids, scores, strict=True)]
    return sorted(ranked, key=lambda hit: (-hit.score, hit.id))


def z_scores(values: Sequence[float]) -> NDArray[np.float64]:
    """Each value's distance from the mean in standard deviations; zeros where all are alike."""
    row = np.asarray(values, dtype=np.float64)
    spread = float(row.std()) if len(row) else 0.0
    return (row - row.mean()) / spread if spread > 1e-12 else np.zeros(len(row))


def leaf_hits(ranked: Sequence[Hit], nodes: Mapping[str, TreeNode], limit: int) -> list[TreeHit]:
    """The first ``limit`` leaves of a ranking, best first."""
    return [
        TreeHit(hit.id, nodes[hit.id].entry, hit.score, nodes[hit.id].depth, nodes[hit.id].text, 1)
        for hit in ranked[:limit]
    ]


def collapse(hits: Sequence[Hit], nodes: Mapping[str, TreeNode], settings: TreeRecallSettings) -> list[TreeHit]:
    """Collapsed retrieval over all nodes: those above the floor, the best few (MemTree, section 3.2), nothing twice.

    ``nodes`` holds the hits and all their ancestors. Only aggregates that a model wrote stand for leaves. The deeper
    node is preferred: an aggregate stays only if enough of its leaves are not covered by hits below it. Best first.
    """
    able = (hit for hit in hits if hit.id in nodes and _may_stand(nodes[hit.id]))
    found = [hit for hit in able if hit.score >= settings.floor][: settings.limit]
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


def _may_stand(node: TreeNode) -> bool:
    """False for an extract: it says again what a few of its leaves say."""
    by_model = node.made_by is not None and node.made_by.prompt is not None and not node.made_by.fallback
    return node.is_leaf or by_model
