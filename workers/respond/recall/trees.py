"""Strategy `tree`: search of all nodes of the memory tree at once (MemTree, section 3.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Source
from eunoe.workers.compress.reads import read_segments
from eunoe.workers.respond.context import (
    Context,
    Row,
    fold,
    line_row,
    make_context,
    memory_row,
    pack,
    write_day,
    write_row,
)
from eunoe.workers.respond.histories import end_words
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.text.names import without_names
from eunoe.workers.tree.reads import TreeHit, TreeRecall, TreeUnit, entries_below
from eunoe.workers.update.reads import read_memories

MAX_BELOW = 50
"""Maximum of entries listed as the basis of an aggregate."""

Entry = Memory | Segment


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node with its entries and its rows in the prompt."""

    hit: TreeHit
    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]

    @property
    def order(self) -> tuple[int, int]:
        """Log order; an aggregate is placed at its first entry."""
        return min((entry.session, entry.index) for entry in self.entries)

    @property
    def last_place(self) -> tuple[int, int]:
        """Session and place in it of its last entry."""
        return max((entry.session, entry.index) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class TreeSource:
    """Shows leaves, and aggregates if the setting allows."""

    store: StateStore
    recall_tree: TreeRecall
    unit: TreeUnit

    async def recall(self, query: Query) -> Context:
        """The best nodes that fit the budget, in time order, no utterance twice."""
        return pack(await self._nodes(query, await self._hits(query)), query.budget_tokens, lay_out_nodes, shorter)

    async def aggregates(self, query: Query) -> list[ShownNode]:
        """The aggregates among the best nodes, best first."""
        return await self._nodes(query, [hit for hit in await self._hits(query) if hit.entry is None])

    async def _hits(self, query: Query) -> list[TreeHit]:
        return await self.recall_tree.recall(query.key, without_names(query.text, query.speakers), query.around)

    async def _nodes(self, query: Query, hits: Sequence[TreeHit]) -> list[ShownNode]:
        """The hits with their entries, those without any left out."""
        below = {
            hit.node_id: [hit.entry]
            if hit.entry
            else await entries_below(self.store, query.key, hit.node_id, MAX_BELOW)
            for hit in hits
        }
        entries = await self._entries(query.key, dict.fromkeys(id_ for ids in below.values() for id_ in ids))
        shown = [_shown(hit, [entries[id_] for id_ in below[hit.node_id] if id_ in entries], query.at) for hit in hits]
        return without_repeats([node for node in shown if node.entries])

    async def _entries(self, key: str, ids: Iterable[str]) -> Mapping[str, Entry]:
        wanted = list(ids)
        if self.unit is TreeUnit.SEGMENTS:
            return {segment.segment_id: segment for segment in await read_segments(self.store, key, wanted)}
        return {memory.memory_id: memory for memory in await read_memories(self.store, key, wanted)}


def _shown(hit: TreeHit, entries: Sequence[Entry], asked: datetime | None) -> ShownNode:
    if hit.entry is None and entries:
        cites = tuple(dict.fromkeys(id_ for entry in entries for id_ in _utterances(entry)))
        at = max(_time_of(entry) for entry in entries)
        row = Row(0, "", hit.text, at, cites, is_memory=True)
        return ShownNode(hit, tuple(entries), (row,))
    return ShownNode(hit, tuple(entries), tuple(row for entry in entries for row in _rows(entry, asked)))


def _rows(entry: Entry, asked: datetime | None) -> list[Row]:
    if isinstance(entry, Memory):
        return [replace(memory_row(0, entry, asked), past=end_words(entry, asked))]
    return [line_row(0, line) for line in entry.lines]


def _utterances(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, Segment):
        return entry.utterance_ids
    return tuple(line.utterance_id for line in entry.evidence)


def _time_of(entry: Entry) -> datetime:
    return entry.at if isinstance(entry, Memory) else entry.lines[-1].at


def without_repeats(nodes: Sequence[ShownNode]) -> list[ShownNode]:
    """The nodes, of those that show one memory in the same words only one: a current one if there is one.

    It has the place of the first of them, and cites what each of them cites.
    """
    kept: dict[object, ShownNode] = {}
    for node in nodes:
        row = node.rows[0]
        is_alone = row.is_memory and len(node.rows) == 1
        words: object = (row.speaker, fold(row.text).casefold()) if is_alone else node.hit.node_id
        kept[words] = _joined(kept[words], node) if words in kept else node
    return list(kept.values())


def _joined(first: ShownNode, again: ShownNode) -> ShownNode:
    shown = again if again.rows[0].is_current and not first.rows[0].is_current else first
    cites = tuple(dict.fromkeys((*first.rows[0].cites, *again.rows[0].cites)))
    return replace(shown, rows=(replace(shown.rows[0], cites=cites),))


def shorter(node: ShownNode) -> ShownNode | None:
    """The node without its last row; `None` if it has only one."""
    return replace(node, rows=node.rows[:-1]) if len(node.rows) > 1 else None


def lay_out_nodes(ranked: Sequence[ShownNode]) -> Context:
    """Print nodes in time order under day headings, without rows that a better node covers."""
    covered: set[str] = set()
    fresh: list[ShownNode] = []
    for node in ranked:
        rows = tuple(row for row in node.rows if not covered.issuperset(row.cites))
        covered.update(id_ for row in rows for id_ in row.cites)
        if rows:
            fresh.append(replace(node, rows=rows))
    fresh.sort(key=lambda node: node.order)
    printed: list[str] = []
    numbered: list[Row] = []
    for row in (row for node in fresh for row in node.rows):
        day = write_day(row.at)
        if not numbered or write_day(numbered[-1].at) != day:
            printed.append(day)
        numbered.append(replace(row, number=len(numbered) + 1))
        printed.append(write_row(numbered[-1]))
    return make_context(printed, [node_source(node) for node in fresh], numbered)


def node_source(node: ShownNode) -> Source:
    """The source of a node, dated by its last entry."""
    last = max(node.entries, key=lambda entry: (entry.session, entry.index))
    return Source(
        kind=Strategy.TREE,
        id=node.hit.node_id,
        session=last.session,
        at=max(row.at for row in node.rows),
        utterance_ids=tuple(dict.fromkeys(id_ for row in node.rows for id_ in row.cites)),
        score=round(node.hit.score, 6),
        memory_ids=tuple(entry.memory_id for entry in node.entries if isinstance(entry, Memory)),
    )
