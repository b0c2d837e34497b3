"""Strategies `current` (Keep Me Updated, section 4) and `insight` (CREEM, section 3.3): current memories."""

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Collection as Collected
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from eunoe.schemas.decisions import Collection, SparseVector
from eunoe.schemas.events import Insight, Strategy
from eunoe.schemas.identity import content_digest
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.schemas.ports import Hit, StateStore
from eunoe.schemas.replies import LeftOut, LeftOutReason, Source
from eunoe.workers.respond.context import Context, Row, heading_of, make_context, memory_row, pack, write_row
from eunoe.workers.respond.left_out import left_out
from eunoe.workers.respond.recall.activation import by_activation
from eunoe.workers.respond.recall.sources import HybridSearch, Query
from eunoe.workers.stores.vectors.depths import depths
from eunoe.workers.text.terms import query_vector
from eunoe.workers.update.reads import read_current, read_memories, read_memory_frequencies, read_memory_stats


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory or an insight as shown in the prompt."""

    row: Row
    order: tuple[int, int, str]
    """Log order; insights of the open session are last."""
    source: Source


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """Searches memories, current or ended."""

    store: StateStore
    search: HybridSearch
    parse: Callable[[str], Memory] = Memory.from_json
    activation: float = 0.0
    """The weight of `by_activation` beside the searches."""
    rrf_k: int = 60

    async def find(self, query: Query, holding: int = 0) -> list[tuple[Memory, float]]:
        """The stored memories among the hits, best first, each with its score.

        ``holding``: so many current ones are sought, behind the first hits where these have fewer.
        """
        stats, frequencies = await asyncio.gather(
            read_memory_stats(self.store, query.key),
            read_memory_frequencies(self.store, query.key, set(query.terms)),
        )
        if not stats.memories:
            return []
        sparse = query_vector(query.terms, frequencies, stats.memories)
        first = await self.search.find(Collection.MEMORIES, query, sparse)
        found = await self._stored(query.key, first)
        there = min(holding, sum(stats.holding.values()))
        lacking = there - len(current_only(found))
        if lacking > 0 and len(first) >= self.search.settings.candidates:
            found += await self._deeper(query, sparse, {hit.id for hit in first}, lacking)
        return by_activation(found, query.at, self.activation, self.rrf_k)

    async def _deeper(
        self, query: Query, sparse: SparseVector, known: Collected[str], lacking: int
    ) -> list[tuple[Memory, float]]:
        """The best ``lacking`` current memories that are not ``known``, or all that the deepest search finds."""
        query = replace(query, vector=await self.search.vector_of(query))
        fresh: list[Hit] = []
        for limit in islice(depths(self.search.settings.candidates), 1, None):
            hits = await self.search.find(Collection.MEMORIES, query, sparse, limit)
            held = await read_current(self.store, query.key, [hit.id for hit in hits if hit.id not in known])
            fresh = [hit for hit in hits if hit.id in held][:lacking]
            if len(fresh) == lacking or len(hits) < limit:
                break
        return await self._stored(query.key, fresh)

    async def _stored(self, key: str, hits: Sequence[Hit]) -> list[tuple[Memory, float]]:
        scores = {hit.id: hit.score for hit in hits}
        known = await read_memories(self.store, key, list(scores), self.parse)
        return [(memory, scores[memory.memory_id]) for memory in known]

    async def read(self, key: str, ids: Sequence[str]) -> list[tuple[Memory, float]]:
        """The stored memories with these ids, each with the score 1."""
        return [(memory, 1.0) for memory in await read_memories(self.store, key, list(ids), self.parse)]


@dataclass(frozen=True, slots=True)
class CurrentSource:
    """The best current memories, expired ones as past; superseded and retired ones are never shown."""

    search: MemorySearch
    limit: int

    async def recall(self, query: Query) -> Context:
        """The memories that fit the budget, in log order, under day headings."""
        hits = await self.search.find(query, self.limit)
        found = current_only(hits)[: self.limit]
        shown = [show_memory(memory, score, Strategy.CURRENT, query.at) for memory, score in found]
        return pack(shown, query.budget_tokens, lay_out_memories, hidden=_hidden(hits, found))


@dataclass(frozen=True, slots=True)
class InsightSource:
    """The memories blended at this turn, the best other current ones, and this session's insights.

    Memories that an insight replaces are left out.
    """

    search: MemorySearch
    limit: int

    async def recall(self, query: Query) -> Context:
        """Insights take precedence under the budget; in the text they are last, as the newest."""
        insights = unique_insights(query.insights)
        replaced = {id_ for insight in query.insights for id_ in insight.replaces}
        blended = await self.search.read(query.key, query.looked_up)
        hits = {
            memory.memory_id: (memory, score)
            for memory, score in [*blended, *await self.search.find(query, self.limit)]
        }
        found = current_only(list(hits.values()))[: self.limit]
        refined = [pair for pair in found if pair[0].memory_id not in replaced]
        hidden = _hidden(list(hits.values()), found)
        shown = [show_insight(insight, query.session, place) for place, insight in enumerate(insights)]
        shown = shown[::-1] + [show_memory(memory, score, Strategy.INSIGHT, query.at) for memory, score in refined]
        return pack(shown, query.budget_tokens, lay_out_memories, hidden=hidden)


def _hidden(hits: Sequence[tuple[Memory, float]], shown: Sequence[tuple[Memory, float]]) -> list[LeftOut]:
    """The found memories that are not shown: those that no longer hold, and those beyond the limit."""
    ids = {memory.memory_id for memory, _ in shown}
    return [
        left_out(
            LeftOutReason.RANK if memory.status is MemoryStatus.CURRENT else LeftOutReason.SUPERSEDED,
            show_memory(memory, score, Strategy.CURRENT).source,
            score,
        )
        for memory, score in hits
        if memory.memory_id not in ids
    ]


def current_only(found: Sequence[tuple[Memory, float]]) -> list[tuple[Memory, float]]:
    """The current memories among those found."""
    return [pair for pair in found if pair[0].status is MemoryStatus.CURRENT]


def unique_insights(insights: Sequence[Insight]) -> list[Insight]:
    """A session's insights without repeated sentences; the latest of equal ones stays."""
    latest = {(insight.speaker, insight.text.casefold()): insight for insight in insights}
    return [insight for insight in insights if latest[insight.speaker, insight.text.casefold()] is insight]


def show_memory(memory: Memory, score: float, kind: Strategy, at: datetime | None = None) -> ShownMemory:
    """The memory with its row and source; ``at``: event time of the ask."""
    row = memory_row(0, memory, at)
    source = Source(
        kind=kind,
        id=memory.memory_id,
        session=memory.session,
        at=memory.at,
        utterance_ids=row.cites,
        score=score,
        memory_ids=(memory.memory_id,),
    )
    return ShownMemory(row, memory.order, source)


def show_insight(insight: Insight, session: int, place: int) -> ShownMemory:
    """Insight number ``place`` (from 0) of the open session ``session``."""
    at = max(line.at for line in insight.evidence)
    cites = tuple(dict.fromkeys(line.utterance_id for line in insight.evidence))
    source = Source(
        kind=Strategy.INSIGHT,
        id=content_digest("\n".join((*cites, insight.speaker, insight.text)).encode()),
        session=session,
        at=at,
        utterance_ids=cites,
        score=1.0,
    )
    return ShownMemory(
        Row(0, insight.speaker, insight.text, at, cites, is_memory=True, is_noted=True), (session, place, ""), source
    )


def lay_out_memories(shown: Sequence[ShownMemory]) -> Context:
    """Print memories in log order, with a day heading when the day changes."""
    ordered = sorted(shown, key=lambda one: one.order)
    printed: list[str] = []
    rows: list[Row] = []
    for one in ordered:
        day = heading_of(one.row)
        if not rows or heading_of(rows[-1]) != day:
            printed.append(day)
        rows.append(replace(one.row, number=len(rows) + 1))
        printed.append(write_row(rows[-1]))
    return make_context(printed, [one.source for one in ordered], rows)
