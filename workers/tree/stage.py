"""Stage tree: grows a tree over what is remembered (MemTree)."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from eunoe.schemas.decisions import Decision, Outcome, Wait, Work
from eunoe.schemas.memory import MemoriesChanged
from eunoe.schemas.ports import Embedder, StateStore, Vectors
from eunoe.workers.stores.term_counts import frequency_writes
from eunoe.workers.text.names import without_names
from eunoe.workers.text.terms import terms
from eunoe.workers.tree.aggregates import Aggregator, tasks_of
from eunoe.workers.tree.entries import Arrivals, EntrySource, names_of
from eunoe.workers.tree.loading import TreeReader
from eunoe.workers.tree.nodes import MAX_SPEAKERS, TERMS, VECTORS, LeafFrequency, TreeStats
from eunoe.workers.tree.reads import read_leaf_frequencies
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.tree import Growth, base_threshold, insert, mark_ended
from eunoe.workers.tree.writes import node_writes, points_of, stats_write

log = logging.getLogger(__name__)


class TreeStage:
    """Owns the tree of a conversation: plans all insertions of a session, then aggregates each touched node once."""

    def __init__(
        self,
        store: StateStore,
        source: EntrySource,
        embedder: Embedder,
        aggregator: Aggregator,
        settings: TreeSettings,
    ) -> None:
        self._store = store
        self._source = source
        self._embedder = embedder
        self._aggregator = aggregator
        self._settings = settings

    async def decide(self, work: Work[MemoriesChanged]) -> Outcome:
        """The tree after the session, as documents and points; raises `Unavailable` when a server is."""
        arrivals = await self._source.arrivals(work.event)
        if isinstance(arrivals, Wait):
            return arrivals
        reader = TreeReader(self._store, work.key)
        known = await reader.leaves([entry.id for entry in arrivals.entries])
        arrivals = replace(arrivals, entries=tuple(entry for entry in arrivals.entries if entry.id not in known))
        stats = await reader.stats()
        names = names_of(stats.speakers, arrivals.entries, MAX_SPEAKERS)
        growth = await reader.open(work, stats)
        vectors = await self._embed([entry.text for entry in arrivals.entries], names)
        base = await self._base_threshold(reader, stats, vectors)
        await self._insert_all(reader, growth, arrivals, (stats, base, vectors))
        await self._mark_all(reader, growth, arrivals.ended)
        await self._aggregate(growth, names)
        decision = await self._decision(work.key, growth, stats, base, names)
        return replace(decision, skipped=work.event.partial)

    async def _embed(self, texts: Sequence[str], names: Sequence[str]) -> Vectors:
        """Unit rows of the texts without the names, which would draw everything below one child."""
        return await self._embedder.embed([without_names(text, names) for text in texts])

    async def _base_threshold(self, reader: TreeReader, stats: TreeStats, vectors: Vectors) -> float | None:
        """The conversation's own base threshold; None while it has too few leaves."""
        missing = self._settings.sample - stats.leaves
        if stats.base_threshold is not None or missing > len(vectors):
            return stats.base_threshold
        known = await reader.rows(VECTORS, (await reader.first_leaves())[: self._settings.sample])
        sample = [*known.values(), *vectors[: max(missing, 0)]]
        return base_threshold(np.stack(sample), self._settings)

    async def _insert_all(
        self, reader: TreeReader, growth: Growth, arrivals: Arrivals, known: tuple[TreeStats, float | None, Vectors]
    ) -> None:
        """Insert entry after entry; each sees the nodes of the earlier ones."""
        stats, base, vectors = known
        for place, (entry, vector) in enumerate(zip(arrivals.entries, vectors, strict=True)):
            early = base is None or stats.leaves + place < self._settings.sample
            used = self._settings.early_threshold if early or base is None else base
            await reader.drive(growth, insert(growth, entry, vector, used, self._settings))

    async def _mark_all(self, reader: TreeReader, growth: Growth, ended: Sequence[str]) -> None:
        own = {growth.nodes[done.leaf].entry: done.leaf for done in growth.insertions}
        leaves = await reader.leaves([entry for entry in ended if entry not in own])
        for entry in ended:
            leaf = own.get(entry) or leaves.get(entry)
            if leaf is None:
                log.warning("tree: an entry that ended has no leaf, session %d", growth.session)
            else:
                await reader.drive(growth, mark_ended(growth, leaf))

    async def _aggregate(self, growth: Growth, names: Sequence[str]) -> None:
        """Write the text of each touched node once, and take its vector from the text."""
        tasks = tasks_of(growth)
        made = await self._aggregator.aggregate(tasks, names) if tasks else []
        vectors = await self._embed([aggregate.topic for aggregate in made], names)
        for task, aggregate, vector in zip(tasks, made, vectors, strict=True):
            node = growth.nodes[task.node_id]
            growth.put(node.model_copy(update={"text": aggregate.text, "made_by": aggregate.made_by}))
            growth.vectors[task.node_id] = vector

    async def _decision(
        self, key: str, growth: Growth, stats: TreeStats, base: float | None, names: tuple[str, ...]
    ) -> Decision:
        leaves = [growth.nodes[done.leaf] for done in growth.insertions]
        listed = {leaf.node_id: terms(leaf.text, drop=names) for leaf in leaves}
        known = await read_leaf_frequencies(self._store, key, set(chain.from_iterable(listed.values())))
        writes = [
            *node_writes(growth),
            *frequency_writes(TERMS, LeafFrequency, listed.values(), known),
            stats_write(stats, growth, base, names),
        ]
        return Decision(writes=tuple(writes), points=points_of(key, growth, listed, self._settings.average_terms))
