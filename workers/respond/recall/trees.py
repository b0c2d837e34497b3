"""Strategy `tree`: search of all nodes of the memory tree at once (MemTree, section 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Memory
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import (
    Context,
    Row,
    fold,
    make_context,
    memory_row,
    pack,
    write_day,
    write_row,
)
from eunoe.workers.respond.histories import end_words
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.text.names import without_names
from eunoe.workers.tree.reads import TreeHit, TreeRecall, entries_below
from eunoe.workers.update.reads import read_memories

MAX_BELOW = 50
"""Maximum of entries listed as the basis of an aggregate."""


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node with the memories that it holds and its row in the prompt."""

    hit: TreeHit
    memories: tuple[Memory, ...]
    row: Row

    @property
    def order(self) -> tuple[int, int]:
        """Log order; an aggregate is placed at its first memory."""
        return min((memory.session, memory.index) for memory in self.memories)

    @property
    def last_place(self) -> tuple[int, int]:
        """Session and place in it of its last memory."""
        return max((memory.session, memory.index) for memory in self.memories)


@dataclass(frozen=True, slots=True)
class TreeSource:
    """Shows leaves, and aggregates if the setting allows."""

    store: StateStore
    recall_tree: TreeRecall

    async def recall(self, query: Query) -> Context:
        """The best nodes that fit the budget, in time order, no utterance twice."""
        return pack(await self._nodes(query, await self._hits(query)), query.budget_tokens, lay_out_nodes)

    async def aggregates(self, query: Query) -> list[ShownNode]:
        """The aggregates among the best nodes, best first."""
        return await self._nodes(query, [hit for hit in await self._hits(query) if hit.entry is None])

    async def _hits(self, query: Query) -> list[TreeHit]:
        return await self.recall_tree.recall(query.key, without_names(query.text, query.speakers), query.around)

    async def _nodes(self, query: Query, hits: Sequence[TreeHit]) -> list[ShownNode]:
        """The hits with their memories, those without any left out."""
        below = {
            hit.node_id: [hit.entry]
            if hit.entry
            else await entries_below(self.store, query.key, hit.node_id, MAX_BELOW)
            for hit in hits
        }
        wanted = dict.fromkeys(id_ for ids in below.values() for id_ in ids)
        known = {memory.memory_id: memory for memory in await read_memories(self.store, query.key, list(wanted))}
        held = ((hit, [known[id_] for id_ in below[hit.node_id] if id_ in known]) for hit in hits)
        return without_repeats([_shown(hit, memories, query.at) for hit, memories in held if memories])


def _shown(hit: TreeHit, memories: Sequence[Memory], asked: datetime | None) -> ShownNode:
    if hit.entry is not None:
        (memory,) = memories
        row = replace(memory_row(0, memory, asked), past=end_words(memory, asked))
    else:
        cites = tuple(dict.fromkeys(line.utterance_id for memory in memories for line in memory.evidence))
        row = Row(0, "", hit.text, max(memory.at for memory in memories), cites, is_memory=True)
    return ShownNode(hit, tuple(memories), row)


def without_repeats(nodes: Sequence[ShownNode]) -> list[ShownNode]:
    """The nodes, of those that show one memory in the same words only one: a current one if there is one.

    It has the place of the first of them, and cites what each of them cites.
    """
    kept: dict[tuple[str, str], ShownNode] = {}
    for node in nodes:
        words = (node.row.speaker, fold(node.row.text).casefold())
        kept[words] = _joined(kept[words], node) if words in kept else node
    return list(kept.values())


def _joined(first: ShownNode, again: ShownNode) -> ShownNode:
    shown = again if again.row.is_current and not first.row.is_current else first
    cites = tuple(dict.fromkeys((*first.row.cites, *again.row.cites)))
    return replace(shown, row=replace(shown.row, cites=cites))


def lay_out_nodes(ranked: Sequence[ShownNode]) -> Context:
    """Print nodes in time order under day headings, without those that better nodes cover."""
    covered: set[str] = set()
    fresh: list[ShownNode] = []
    for node in ranked:
        if not covered.issuperset(node.row.cites):
            covered.update(node.row.cites)
            fresh.append(node)
    fresh.sort(key=lambda node: node.order)
    printed: list[str] = []
    numbered: list[Row] = []
    for node in fresh:
        day = write_day(node.row.at)
        if not numbered or write_day(numbered[-1].at) != day:
            printed.append(day)
        numbered.append(replace(node.row, number=len(numbered) + 1))
        printed.append(write_row(numbered[-1]))
    return make_context(printed, [node_source(node) for node in fresh], numbered)


def node_source(node: ShownNode) -> Source:
    """The source of a node, dated by its row."""
    return Source(
        kind=Strategy.TREE,
        id=node.hit.node_id,
        session=node.last_place[0],
        at=node.row.at,
        utterance_ids=tuple(dict.fromkeys(node.row.cites)),
        score=round(node.hit.score, 6),
        memory_ids=tuple(memory.memory_id for memory in node.memories),
    )
