"""Reads of the tree, for other stages and for inspection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.schemas.decisions import Collection
from eunoe.schemas.documents import read_document
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search, StateStore, VectorIndex
from eunoe.workers.stores.documents.term_counts import read_numbers
from eunoe.workers.text.names import without_names
from eunoe.workers.text.queries import WeightedText, mixed_vector, weighted_terms
from eunoe.workers.text.terms import query_vector
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import NAME, NODES, ROOT, TERMS, VECTORS, LeafFrequency, TreeNode, TreeStats
from eunoe.workers.tree.retrieve import NodeScores, TreeHit, ancestors_of, collapse, may_stand, rank_nodes
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings
from eunoe.workers.tree.tree import DIGITS, Vector

__all__ = [
    "TreeHit",
    "TreeRecall",
    "TreeRecallSettings",
    "TreeSettings",
    "entries_below",
    "read_leaf_frequencies",
    "read_tree",
    "with_ancestors",
]


async def read_tree(store: StateStore, key: str) -> dict[str, TreeNode]:
    """The whole tree, id → node, the root under `ROOT`; empty if there is none. A full scan, for inspection."""
    rows = await store.scan(NAME, key, NODES)
    return {id_: read_document(TreeNode, row, key) for id_, row in rows.items()}


async def read_leaf_frequencies(store: StateStore, key: str, wanted: set[str]) -> dict[str, int]:
    """Term → number of leaves that contain it, for the wanted terms that occur."""
    return await read_numbers(store, (NAME, key, TERMS), LeafFrequency, wanted)


async def entries_below(store: StateStore, key: str, node_id: str, limit: int) -> list[str]:
    """The ids of at most ``limit`` entries below a node, level by level."""
    reader, level, found = TreeReader(store, key), [node_id], list[str]()
    while level and len(found) < limit:
        nodes = await reader.nodes(level)
        found += [node.entry for node in nodes.values() if node.entry is not None]
        level = [child for node in nodes.values() for child in node.children][: 4 * limit]
    return found[:limit]


@dataclass(frozen=True, slots=True)
class TreeRecall:
    """Searches a conversation's tree, all nodes at once (MemTree, section 3.2)."""

    store: StateStore
    index: VectorIndex
    embedder: Embedder
    settings: TreeRecallSettings

    async def recall(self, key: str, question: str, around: Sequence[WeightedText] = ()) -> list[TreeHit]:
        """The nodes that match the question and the texts ``around`` it, best first; empty if none does.

        Leaves, ranked by dense vectors and BM25 together with their ancestors' mean cosine; with ``aggregates_stand``
        also aggregates that a model wrote, where they add to the leaves found. Hits without a stored node are dropped.
        Leaves of ended memories are included; the caller checks. Raises `Unavailable` if a server is unavailable.
        """
        reader = TreeReader(self.store, key, self.embedder.dimensions)
        stats = await reader.stats()
        if not stats.leaves:
            return []
        texts = [without_names(text, stats.speakers) for text in (question, *(text for text, _ in around))]
        vector = mixed_vector(list(await self.embedder.embed(texts)), [1.0, *(weight for _, weight in around)])
        words = weighted_terms(question, around, drop=stats.speakers)
        dense, sparse = await self._search(key, words, stats, vector)
        nodes = await with_ancestors(reader, [hit.id for hit in (*dense, *sparse)])
        leaves = self._leaves(dense, sparse, nodes)
        found = leaves | self._aggregates(dense, leaves, nodes)
        scores = await self._scores(reader, found, nodes, vector)
        return collapse(rank_nodes(scores, self.settings), nodes, self.settings)

    def _leaves(self, dense: Sequence[Hit], sparse: Sequence[Hit], nodes: Mapping[str, TreeNode]) -> dict[str, float]:
        """Leaf id → BM25 score, for leaves above the cosine floor and those that share words with the question."""
        similar = dict.fromkeys((hit.id for hit in dense if hit.score >= self.settings.floor), 0.0)
        found = similar | {hit.id: hit.score for hit in sparse}
        return {id_: score for id_, score in found.items() if id_ in nodes and nodes[id_].is_leaf}

    def _aggregates(
        self, dense: Sequence[Hit], leaves: Mapping[str, float], nodes: Mapping[str, TreeNode]
    ) -> dict[str, float]:
        """Aggregate id → the best BM25 score of the found leaves below it, for those that may stand."""
        if not self.settings.aggregates_stand:
            return {}
        above = (hit.id for hit in dense if hit.score >= self.settings.floor)
        best = {id_: 0.0 for id_ in above if id_ in nodes and may_stand(nodes[id_])}
        for leaf, bm25 in leaves.items():
            for id_ in ancestors_of(nodes[leaf], nodes):
                if id_ in best:
                    best[id_] = max(best[id_], bm25)
        return best

    async def _search(
        self, key: str, words: Mapping[str, float], stats: TreeStats, vector: Vector
    ) -> tuple[list[Hit], list[Hit]]:
        """Hits among all nodes by cosine, and among leaves by BM25."""
        limit = self.settings.candidates
        sparse = query_vector(words, await read_leaf_frequencies(self.store, key, set(words)), stats.leaves)
        searches = [Search(Collection.TREE, key, limit, dense=vector.astype("<f4").tobytes())]
        if sparse.indices:
            searches.append(Search(Collection.TREE, key, limit, sparse=sparse))
        found = await self.index.search(searches)
        return found[0], found[1] if len(found) > 1 else []

    async def _scores(
        self, reader: TreeReader, found: Mapping[str, float], nodes: Mapping[str, TreeNode], vector: Vector
    ) -> dict[str, NodeScores]:
        """The scores of each node; cosines are computed from the vectors in Redis."""
        lines = {id_: ancestors_of(nodes[id_], nodes) for id_ in found}
        wanted = dict.fromkeys(id_ for node, line in lines.items() for id_ in (node, *line))
        rows = await reader.rows(VECTORS, list(wanted))
        cosines = {id_: round(float(row @ vector), DIGITS) for id_, row in rows.items()}
        means = {id_: float(np.mean([cosines[above] for above in line])) for id_, line in lines.items() if line}
        return {id_: NodeScores(cosines[id_], bm25, means.get(id_)) for id_, bm25 in found.items()}


async def with_ancestors(reader: TreeReader, ids: Sequence[str]) -> dict[str, TreeNode]:
    """The stored nodes and all their ancestors except the root, read level by level."""
    nodes: dict[str, TreeNode] = {}
    level = list(dict.fromkeys(ids))
    while level:
        nodes |= await reader.nodes(level)
        above = dict.fromkeys(nodes[id_].parent or ROOT for id_ in level if id_ in nodes)
        level = [id_ for id_ in above if id_ != ROOT and id_ not in nodes]
    return nodes
