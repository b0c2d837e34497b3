"""Strategy `fused`: candidates of all sources, scored together within one budget."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field, replace
from itertools import accumulate

from eunoe.schemas.decisions import Collection
from eunoe.schemas.documents import reading_raw
from eunoe.schemas.memory import Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import (
    read_frequencies,
    read_line_features,
    read_segment_texts,
    read_stats,
    segment_id,
)
from eunoe.workers.link.reads import TimelineSettings, VertexCache, read_timelines
from eunoe.workers.respond.breadth import topic_of
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.fused.candidates import CandidateScores
from eunoe.workers.respond.fused.day_sessions import sessions_of_days
from eunoe.workers.respond.fused.packing import choose
from eunoe.workers.respond.fused.scoring import QuestionFeatures, score_passages
from eunoe.workers.respond.fused.scoring_input import ScoringInput
from eunoe.workers.respond.fused.units import Candidate
from eunoe.workers.respond.fused.weights import FeatureWeights
from eunoe.workers.respond.hints import QuestionHints, read_question
from eunoe.workers.respond.histories import histories, only_outdated, past_notes
from eunoe.workers.respond.recall.feature_cache import FeatureCache
from eunoe.workers.respond.recall.memories import MemorySearch
from eunoe.workers.respond.recall.packed_segments import StoredSegment
from eunoe.workers.respond.recall.sources import HybridSearch, Query
from eunoe.workers.respond.recall.timelines import ShownTimeline, show_timelines
from eunoe.workers.respond.recall.trees import ShownNode, TreeSource
from eunoe.workers.text.periods import Period
from eunoe.workers.text.queries import mixed_vector
from eunoe.workers.text.terms import query_vector
from eunoe.workers.update.reads import read_memories

MAX_EVIDENCE_SESSIONS = 8
"""Sessions read for found memories whose utterances no segment search found."""
MAX_SEGMENTS_PER_SESSION = 64
"""Segments read of each such session."""
SEGMENTS_AT_ONCE = 16
"""Segments in one read, of a session: few have more."""
FOUND_AT_ONCE = 24
"""Found segments in the first read: fewer are read than found where they are long."""
LITTLE_ROOM = 0.05
"""Share of the bound on lines for which no more segments are read."""
DAYS_SHARE = 0.25
"""Share of the bound on lines that segments of the days named in a question take at most."""
MAX_SUCCESSIONS = 4
"""Steps of supersession that are followed."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that may be shown for a question, not yet scored."""

    inputs: ScoringInput
    question: QuestionFeatures
    memories: tuple[Memory, ...]
    """The found memories."""
    known: Mapping[str, Memory]
    """Memory id → the found memories and their successors."""
    linked: tuple[ShownTimeline, ...]
    aggregates: tuple[ShownNode, ...]


def context_of(material: Material, query: Query, weights: FeatureWeights) -> Context:
    """The best of the material that fits the budget of the question, in time order."""
    inputs = material.inputs
    scored = CandidateScores.of(inputs, score_passages(inputs, material.question, weights), weights.length, query.at)
    replaced = {id_ for insight in query.insights for id_ in insight.replaces}
    hidden = only_outdated(material.known.values(), replaced)
    candidates: list[Candidate] = [
        *scored.utterances(hidden, past_notes(material.known.values(), replaced, query.at), query.budget_tokens),
        *scored.memories(material.memories, replaced),
        *scored.histories(histories(material.memories, material.known), material.question.hints),
        *scored.timelines(material.linked),
        *scored.aggregates(material.aggregates),
        *scored.insights(query),
    ]
    return choose(candidates, query.budget_tokens, scored.outdated(hidden, material.known.values()))


class _Kept:
    """Segments within a bound on lines: the first ones that fit, without duplicates; at least one."""

    def __init__(self, max_lines: int) -> None:
        self._room = max_lines
        self._little = LITTLE_ROOM * max_lines
        self._segments: dict[str, StoredSegment] = {}

    @property
    def is_full(self) -> bool:
        """Whether so little room is left that no more segments are read for it."""
        return self._room < self._little or self._room <= 0

    @property
    def likely(self) -> int:
        """The number of further segments that there is room for, judged by those that are there."""
        lines = sum(len(one.utterance_ids) for one in self._segments.values())
        return max(FOUND_AT_ONCE, self._room * len(self._segments) // max(1, lines))

    @property
    def segments(self) -> ValuesView[StoredSegment]:
        """They, in the order in which they were added."""
        return self._segments.values()

    def __contains__(self, segment_id: str) -> bool:
        """Whether this segment is among them."""
        return segment_id in self._segments

    def add_while_room(self, found: Iterable[StoredSegment]) -> None:
        """Add segments until so little room is left that no more are read for it."""
        for one in found:
            if self.is_full:
                return
            self.add([one])

    def add(self, found: Iterable[StoredSegment]) -> None:
        """Add segments; one that does not fit is left out, and smaller ones after it may fit still."""
        for one in found:
            size = len(one.utterance_ids)
            if one.segment_id not in self._segments and (not self._segments or size <= self._room):
                self._segments[one.segment_id] = one
                self._room -= size


@dataclass(frozen=True, slots=True)
class FusedSource:
    """Searches segments and memories, then scores their utterances one by one."""

    store: StateStore
    search: HybridSearch
    cache: FeatureCache
    timelines: TimelineSettings
    max_lines: int
    tree: TreeSource | None = None
    """The tree, where a model writes its aggregates."""
    weights: FeatureWeights = field(default_factory=FeatureWeights)
    parse_memory: Callable[[str], Memory] = Memory.from_json
    graph: VertexCache | None = None

    async def recall(self, query: Query) -> Context:
        """The best passages, memories, histories and insights that fit the budget, in time order."""
        return context_of(await self.gather(query), query, self.weights)

    async def gather(self, query: Query) -> Material:
        """All that may be shown, not yet scored. Raises `Unavailable`."""
        hints = read_question(query.text, query.speakers, query.asker, query.at.date() if query.at else None)
        query = replace(query, text=topic_of(query.text, hints.breadth))
        read = await self.cache.read_vectors(query.texts, query.speakers)
        query = replace(query, vector=mixed_vector([read[text] for text in query.texts], query.weights))
        memory_search = MemorySearch(self.store, self.search, self.parse_memory)
        kept, hits = await asyncio.gather(self._segments(query, hints.said), memory_search.find(query))
        memories = await self._with_looked_up(query, [memory for memory, _ in hits])
        # side by side: each is a chain of reads, and every one waits for the event loop
        (inputs, question), known, linked, aggregates = await asyncio.gather(
            self._scoring_input(query, hints, kept, memories),
            self._with_successors(query.key, memories),
            self._linked(query, memories),
            self._aggregates(query),
        )
        return Material(inputs, question, tuple(memories), known, tuple(linked), tuple(aggregates))

    async def _segments(self, query: Query, days: Sequence[Period]) -> _Kept:
        """Some segments of the days that the question names, then the found ones, best first, then their neighbours."""
        kept = _Kept(self.max_lines)
        stats, frequencies = await asyncio.gather(
            read_stats(self.store, query.key), read_frequencies(self.store, query.key, set(query.terms))
        )
        if not stats.segments:
            return kept
        hits = await self.search.find(
            Collection.SEGMENTS, query, query_vector(query.terms, frequencies, stats.segments)
        )
        if days:
            kept.add(await self._of_days(query, stats.session, days))
        await self._keep(query, kept, [hit.id for hit in hits])
        if not kept.is_full:
            there = {(one.session, one.index): None for one in kept.segments}
            beside = [(session, index + step) for session, index in there for step in (-1, 1) if index + step >= 0]
            await self._keep(query, kept, _segment_ids(query.key, [place for place in beside if place not in there]))
        return kept

    async def _of_days(self, query: Query, last: int, days: Sequence[Period]) -> list[StoredSegment]:
        """Segments of sessions of these days, as many as take a quarter of the lines: the topic has the others."""
        sessions = await sessions_of_days(self.store, query.key, last, days)
        found = await self._of_sessions(query, sessions)
        lines = accumulate(len(one.utterance_ids) for one in found)
        return [one for one, total in zip(found, lines, strict=True) if total <= DAYS_SHARE * self.max_lines]

    async def _keep(self, query: Query, kept: _Kept, ids: Sequence[str]) -> None:
        """Read segments in the given order, as long as there is room for them."""
        wanted = [id_ for id_ in ids if id_ not in kept]
        begin = 0
        while begin < len(wanted) and not kept.is_full:
            end = begin + kept.likely
            kept.add_while_room(await self._read(query, wanted[begin:end]))
            begin = end

    async def _read(self, query: Query, ids: Sequence[str]) -> list[StoredSegment]:
        """The stored segments with these ids, in the given order; unknown ids are left out."""
        texts = await read_segment_texts(self.store, query.key, ids)
        with reading_raw(Segment, query.key):
            return [self.cache.stored(text, query.speakers) for text in texts]

    async def _with_looked_up(self, query: Query, memories: list[Memory]) -> list[Memory]:
        """The found memories, and those that were found when memory was asked a question."""
        known = {memory.memory_id for memory in memories}
        missing = [id_ for id_ in query.looked_up if id_ not in known]
        return [*memories, *await read_memories(self.store, query.key, missing, self.parse_memory)]

    async def _with_evidence(self, query: Query, kept: _Kept, memories: Sequence[Memory]) -> list[StoredSegment]:
        """Add sessions of memories whose utterances are missing; in log order."""
        seen = {id_ for segment in kept.segments for id_ in segment.utterance_ids}
        missing = (m.session for m in memories if any(line.utterance_id not in seen for line in m.evidence))
        sessions = list(dict.fromkeys(missing))[:MAX_EVIDENCE_SESSIONS]
        if not kept.is_full:
            kept.add(await self._of_sessions(query, sessions))
        return sorted(kept.segments, key=lambda one: (one.session, one.index))

    async def _of_sessions(self, query: Query, sessions: Sequence[int]) -> list[StoredSegment]:
        """The first `MAX_SEGMENTS_PER_SESSION` segments of each session, session by session."""
        found: list[StoredSegment] = []
        going = list(sessions)
        for begin in range(0, MAX_SEGMENTS_PER_SESSION, SEGMENTS_AT_ONCE):
            wanted = [(session, index) for session in going for index in range(begin, begin + SEGMENTS_AT_ONCE)]
            page = await self._read(query, _segment_ids(query.key, wanted))
            found += page
            lengths = Counter(one.session for one in page)
            going = [session for session in going if lengths[session] == SEGMENTS_AT_ONCE]
            if not going:
                break
        place = {session: place for place, session in enumerate(sessions)}
        return sorted(found, key=lambda one: (place[one.session], one.index))

    async def _with_successors(self, key: str, memories: Sequence[Memory]) -> dict[str, Memory]:
        """The memories and their successors, by id."""
        known = {memory.memory_id: memory for memory in memories}
        for _ in range(MAX_SUCCESSIONS):
            next_ = {one.ending.by: None for one in known.values() if one.ending is not None and one.ending.by}
            fresh = await read_memories(self.store, key, [id_ for id_ in next_ if id_ not in known], self.parse_memory)
            if not fresh:
                break
            known |= {memory.memory_id: memory for memory in fresh}
        return known

    async def _linked(self, query: Query, memories: Sequence[Memory]) -> list[ShownTimeline]:
        """The timelines of the best memories that have more than one memory."""
        best = [memory.memory_id for memory in memories][: self.timelines.retrieved]
        found = await read_timelines(self.store, query.key, best, self.timelines, self.graph) if best else []
        longer = [timeline for timeline in found if len(timeline.memories) > 1]
        scores = dict.fromkeys(best, 0.0)
        if not longer:
            return []
        return await show_timelines(self.store, query.key, longer, scores, query.at, self.parse_memory)

    async def _aggregates(self, query: Query) -> list[ShownNode]:
        return [] if self.tree is None else await self.tree.aggregates(query)

    async def _scoring_input(
        self, query: Query, hints: QuestionHints, kept: _Kept, memories: Sequence[Memory]
    ) -> tuple[ScoringInput, QuestionFeatures]:
        segments = await self._with_evidence(query, kept, memories)
        missing = [segment.segment_id for segment in self.cache.missing(segments)]
        stored = await read_line_features(self.store, query.key, missing)
        found = await self.cache.read_segments(segments, query.speakers, stored)
        read = await self.cache.read_vectors([*query.texts, *(m.text for m in memories)], query.speakers)
        vector = mixed_vector([read[text] for text in query.texts], query.weights)
        cosines: dict[str, float] = {}
        for memory in memories:
            near = float(read[memory.text] @ vector)
            for line in memory.evidence:
                cosines[line.utterance_id] = max(cosines.get(line.utterance_id, -1.0), near)
        return ScoringInput(found, cosines), QuestionFeatures(hints, query.terms, vector, len(query.speakers))


def _segment_ids(key: str, places_: Iterable[tuple[int, int]]) -> list[str]:
    """The ids of segments by (session, index); not all need to exist."""
    return list(dict.fromkeys(segment_id(key, session, index) for session, index in places_))
