"""Strategies `current` (Keep Me Updated, section 4) and `insight` (CREEM, section 3.3): memories that hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Insight, Source, Strategy
from eunoe.schemas.identity import content_digest
from eunoe.schemas.memory import Memory, MemoryStatus
from eunoe.schemas.ports import StateStore
from eunoe.workers.respond.context import Context, Row, make_context, memory_row, pack, write_day, write_row
from eunoe.workers.respond.sources import HybridSearch, Query
from eunoe.workers.text.terms import query_vector, terms
from eunoe.workers.update.reads import read_memories, read_memory_frequencies, read_memory_stats


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory or an insight as the prompt shows it."""

    row: Row
    order: tuple[int, int, str]
    """Log order; insights of the open session come last."""
    source: Source


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """Finds memories of all states with the scores that they were found with."""

    store: StateStore
    finder: HybridSearch
    parse: Callable[[str], Memory] = Memory.from_json

    async def find(self, query: Query) -> list[tuple[Memory, float]]:
        """Hits that Redis knows, best first."""
        stats = await read_memory_stats(self.store, query.key)
        if not stats.memories:
            return []
        words = terms(query.text, drop=query.speakers)
        frequencies = await read_memory_frequencies(self.store, query.key, set(words))
        hits = await self.finder.find(Collection.MEMORIES, query, query_vector(words, frequencies, stats.memories))
        scores = {hit.id: hit.score for hit in hits}
        known = await read_memories(self.store, query.key, list(scores), self.parse)
        return [(memory, scores[memory.memory_id]) for memory in known]


@dataclass(frozen=True, slots=True)
class CurrentSource:
    """The best few of the memories that hold; what was superseded or retired never shows."""

    search: MemorySearch
    limit: int

    async def recall(self, query: Query) -> Context:
        """The memories that fit, in time order, the day once while it stays the same."""
        found = holding(await self.search.find(query))[: self.limit]
        shown = [show_memory(memory, score, Strategy.CURRENT) for memory, score in found]
        return pack(shown, query.budget_tokens, lay_out_memories, _no_shorter)


@dataclass(frozen=True, slots=True)
class InsightSource:
    """Memories that hold, refined by this session's insights, and the insights themselves."""

    search: MemorySearch
    limit: int

    async def recall(self, query: Query) -> Context:
        """Insights are packed first, for they are what is new; they stand last, for the open session is the latest."""
        insights = standing(query.insights)
        replaced = {id_ for insight in query.insights for id_ in insight.replaces}
        found = holding(await self.search.find(query))[: self.limit]
        refined = [pair for pair in found if pair[0].memory_id not in replaced]
        shown = [show_insight(insight, query.session, place) for place, insight in enumerate(insights)]
        shown = shown[::-1] + [show_memory(memory, score, Strategy.INSIGHT) for memory, score in refined]
        return pack(shown, query.budget_tokens, lay_out_memories, _no_shorter)


def holding(found: Sequence[tuple[Memory, float]]) -> list[tuple[Memory, float]]:
    """The memories that hold."""
    return [pair for pair in found if pair[0].status is MemoryStatus.CURRENT]


def standing(insights: Sequence[Insight]) -> list[Insight]:
    """A session's insights, equal sentences once, the latest of them."""
    latest = {(insight.speaker, insight.text.casefold()): insight for insight in insights}
    return [insight for insight in insights if latest[insight.speaker, insight.text.casefold()] is insight]


def show_memory(memory: Memory, score: float, kind: Strategy) -> ShownMemory:
    """A memory with the utterances that it rests on."""
    row = memory_row(0, memory)
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
    """The ``place``-th insight of the open session, counted from 0; ``session`` is that session's number."""
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
    return ShownMemory(Row(0, insight.speaker, insight.text, at, cites, is_memory=True), (session, place, ""), source)


def lay_out_memories(shown: Sequence[ShownMemory]) -> Context:
    """Memories in log order, the day once while it stays the same."""
    ordered = sorted(shown, key=lambda one: one.order)
    printed: list[str] = []
    rows: list[Row] = []
    for one in ordered:
        day = write_day(one.row.at)
        if not rows or write_day(rows[-1].at) != day:
            printed.append(day)
        rows.append(replace(one.row, number=len(rows) + 1))
        printed.append(write_row(rows[-1]))
    return make_context(printed, [one.source for one in ordered], rows)


def _no_shorter(shown: ShownMemory) -> ShownMemory | None:
    """A memory is one sentence: there is no shorter one."""
    return None
