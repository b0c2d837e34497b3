"""Stage `tree`: grows a tree over the memories (MemTree)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from eunoe.schemas.decisions import Decision, Work
from eunoe.schemas.memory import MemoriesChanged
from eunoe.schemas.model_ports import Embedder, Vectors
from eunoe.schemas.ports import StateStore
from eunoe.workers.models.local.vectors import quantized
from eunoe.workers.stores.documents.term_counts import frequency_writes
from eunoe.workers.text.names import first_speakers, without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.tree.aggregates import Aggregator, tasks_of
from eunoe.workers.tree.ending import load_current, mark_ended
from eunoe.workers.tree.entries import entry_changes
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import TERMS, VECTORS, LeafFrequency, TreeStats
from eunoe.workers.tree.reads import read_leaf_frequencies
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.tree import LeafEntry, Vector, WorkingTree, base_threshold, insert
from eunoe.workers.tree.writes import node_writes, points_of, stats_write

log = logging.getLogger(__name__)


class TreeStage:
    """Owns the tree of a conversation: does all insertions of a session, then aggregates each changed node once."""

    def __init__(
        self,
        store: StateStore,
        embedder: Embedder,
        aggregator: Aggregator,
        settings: TreeSettings,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._aggregator = aggregator
        self._settings = settings

    async def decide(self, work: Work[MemoriesChanged]) -> Decision:
        """Decide the changed documents and points; raises `Unavailable` if a server is unavailable."""
        changes = entry_changes(work.event)
        reader = TreeReader(self._store, work.key, self._embedder.dimensions)
        known = await reader.leaves([entry.id for entry in changes.entries])
        changes = replace(changes, entries=tuple(entry for entry in changes.entries if entry.id not in known))
        stats = await reader.stats()
        names = first_speakers(stats.speakers, *(entry.speakers for entry in changes.entries))
        tree = await reader.open(work, stats)
        vectors = await self._embed([entry.text for entry in changes.entries], names)
        base = await self._base_threshold(reader, stats, vectors)
        thresholds = self._thresholds(stats, base, len(vectors))
        await self._insert_all(reader, tree, zip(changes.entries, vectors, thresholds, strict=True))
        await self._mark_all(reader, tree, changes.ended)
        await reader.drive(tree, load_current(tree))
        await self._aggregate(tree, names)
        decision = await self._decision(work.key, tree, stats, base, names)
        return replace(decision, skipped=work.event.partial)

    async def _embed(self, texts: Sequence[str], names: Sequence[str]) -> Vectors:
        """Unit vectors of the texts without names, which would pull everything below one child, as they are stored."""
        return quantized(await self._embedder.embed([without_names(text, names) for text in texts]))

    async def _base_threshold(self, reader: TreeReader, stats: TreeStats, vectors: Vectors) -> float | None:
        """The conversation's base threshold; `None` while it has too few leaves."""
        missing = self._settings.sample - stats.leaves
        if stats.base_threshold is not None or missing > len(vectors):
            return stats.base_threshold
        known = await reader.rows(VECTORS, (await reader.first_leaves())[: self._settings.sample])
        sample = [*known.values(), *vectors[: max(missing, 0)]]
        return base_threshold(np.stack(sample), self._settings)

    def _thresholds(self, stats: TreeStats, base: float | None, count: int) -> list[float]:
        """The base threshold of each of ``count`` further leaves; the first ones of a tree have the early one."""
        places = range(stats.leaves, stats.leaves + count)
        early = self._settings.early_threshold
        return [early if base is None or place < self._settings.sample else base for place in places]

    async def _insert_all(
        self, reader: TreeReader, tree: WorkingTree, entries: Iterable[tuple[LeafEntry, Vector, float]]
    ) -> None:
        """Insert entries in order, each with its vector and threshold; each sees the nodes of the earlier ones."""
        for entry, vector, threshold in entries:
            await reader.drive(tree, insert(tree, entry, vector, threshold, self._settings))

    async def _mark_all(self, reader: TreeReader, tree: WorkingTree, ended: Mapping[str, str | None]) -> None:
        own = {tree.nodes[done.leaf].entry: done.leaf for done in tree.insertions}
        leaves = await reader.leaves([entry for entry in ended if entry not in own])
        for entry, said_by in ended.items():
            leaf = own.get(entry) or leaves.get(entry)
            if leaf is None:
                log.warning("Ended entry without a leaf: entry=%s session=%d", entry, tree.session)
            else:
                await reader.drive(tree, mark_ended(tree, leaf, said_by))

    async def _aggregate(self, tree: WorkingTree, names: Sequence[str]) -> None:
        """Write the text of each changed inner node once, and embed it."""
        tasks = tasks_of(tree)
        made = await self._aggregator.aggregate(tasks, names) if tasks else []
        vectors = await self._embed([aggregate.topic for aggregate in made], names)
        for task, aggregate, vector in zip(tasks, made, vectors, strict=True):
            node = tree.nodes[task.node_id]
            tree.put(node.model_copy(update={"text": aggregate.text, "made_by": aggregate.made_by}))
            tree.vectors[task.node_id] = vector

    async def _decision(
        self, key: str, tree: WorkingTree, stats: TreeStats, base: float | None, names: tuple[str, ...]
    ) -> Decision:
        leaves = [tree.nodes[done.leaf] for done in tree.insertions]
        listed = {leaf.node_id: terms(leaf.text, drop=names) for leaf in leaves}
        known = await read_leaf_frequencies(self._store, key, set(chain.from_iterable(listed.values())))
        writes = [
            *node_writes(tree),
            *frequency_writes(TERMS, LeafFrequency, listed.values(), known),
            stats_write(stats, tree, base, names),
        ]
        return Decision(writes=tuple(writes), points=points_of(key, tree, listed, self._settings.average_terms))
