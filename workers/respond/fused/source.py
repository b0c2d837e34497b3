"""Strategy `fused`: candidates of all sources, scored together within one budget."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunoe.schemas.decisions import Collection
from eunoe.schemas.memory import Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import read_frequencies, read_line_features, read_segments, read_stats, segment_id
from eunoe.workers.link.reads import TimelineSettings, read_timelines
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.feature_cache import FeatureCache
from eunoe.workers.respond.fused.candidates import CandidateScores
from eunoe.workers.respond.fused.packing import choose
from eunoe.workers.respond.fused.scoring import FeatureWeights, QuestionFeatures, ScoringInput, score_turns
from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.histories import histories, only_outdated
from eunoe.workers.respond.memories import MemorySearch
from eunoe.workers.respond.parse_cache import ParseCache
from eunoe.workers.respond.sources import HybridSearch, Query
from eunoe.workers.respond.timelines import ShownTimeline, show_timelines
from eunoe.workers.respond.trees import ShownNode, TreeSource
from eunoe.workers.respond.turns import COLUMNS, Floats, positions
from eunoe.workers.text.queries import mixed_vector
from eunoe.workers.text.terms import query_vector
from eunoe.workers.update.reads import read_memories

MAX_EVIDENCE_SESSIONS = 8
"""Sessions read for found memories whose utterances no segment search found."""
MAX_SEGMENTS_PER_SESSION = 64
"""Segments read of each such session."""
MAX_SUCCESSIONS = 4
"""Steps of supersession that are followed."""


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
    parse_segment: ParseCache[Segment] = field(default_factory=lambda: ParseCache(Segment.from_json))
    parse_memory: ParseCache[Memory] = field(default_factory=lambda: ParseCache(Memory.from_json))

    async def recall(self, query: Query) -> Context:
        """The best utterances, memories, histories and insights that fit the budget, in time order."""
        read = await self.cache.read_texts(query.texts, query.speakers)
        query = replace(query, vector=mixed_vector([read[text][1] for text in query.texts], query.weights))
        memory_search = MemorySearch(self.store, self.search, self.parse_memory)
        found, hits = await asyncio.gather(self._segments(query), memory_search.find(query))
        memories = await self._with_looked_up(query, [memory for memory, _ in hits])
        segments = await self._with_evidence(query.key, found, memories)
        known, linked, aggregates = await asyncio.gather(
            self._with_successors(query.key, memories), self._linked(query.key, memories), self._aggregates(query)
        )
        inputs, question = await self._scoring_input(query, segments, memories)
        scores = CandidateScores.of(inputs.turns, score_turns(inputs, question, self.weights), self.weights.length)
        replaced = {id_ for insight in query.insights for id_ in insight.replaces}
        units = [
            *scores.utterances(only_outdated(known.values(), replaced), query.budget_tokens),
            *scores.memories(memories, replaced),
            *scores.histories(histories(memories, known), question.hints),
            *scores.timelines(linked),
            *scores.aggregates(aggregates),
            *scores.insights(query),
        ]
        return choose(units, query.budget_tokens)

    async def _segments(self, query: Query) -> list[Segment]:
        """The found segments, best first, then their neighbours, within the bound on lines."""
        stats = await read_stats(self.store, query.key)
        if not stats.segments:
            return []
        frequencies = await read_frequencies(self.store, query.key, set(query.terms))
        hits = await self.search.find(
            Collection.SEGMENTS, query, query_vector(query.terms, frequencies, stats.segments)
        )
        found = await read_segments(self.store, query.key, [hit.id for hit in hits], self.parse_segment)
        beside = [(one.session, one.index + step) for one in found for step in (-1, 1) if one.index + step >= 0]
        near = await read_segments(self.store, query.key, _segment_ids(query.key, beside), self.parse_segment)
        return _bounded([*found, *near], self.max_lines)

    async def _with_looked_up(self, query: Query, memories: list[Memory]) -> list[Memory]:
        """The found memories, and those that were found when memory was asked a question."""
        known = {memory.memory_id for memory in memories}
        missing = [id_ for id_ in query.looked_up if id_ not in known]
        return [*memories, *await read_memories(self.store, query.key, missing, self.parse_memory)]

    async def _with_evidence(self, key: str, found: Sequence[Segment], memories: Sequence[Memory]) -> list[Segment]:
        """Add sessions of memories whose utterances are missing; in log order."""
        seen = {id_ for segment in found for id_ in segment.utterance_ids}
        missing = (m.session for m in memories if any(line.utterance_id not in seen for line in m.evidence))
        sessions = list(dict.fromkeys(missing))[:MAX_EVIDENCE_SESSIONS]
        wanted = [(session, index) for session in sessions for index in range(MAX_SEGMENTS_PER_SESSION)]
        more = await read_segments(self.store, key, _segment_ids(key, wanted), self.parse_segment)
        return sorted(_bounded([*found, *more], self.max_lines), key=lambda one: (one.session, one.index))

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

    async def _linked(self, key: str, memories: Sequence[Memory]) -> list[ShownTimeline]:
        """The timelines of the best memories that have more than one memory."""
        best = [memory.memory_id for memory in memories][: self.timelines.retrieved]
        found = await read_timelines(self.store, key, best, self.timelines) if best else []
        longer = [timeline for timeline in found if len(timeline.memories) > 1]
        return await show_timelines(self.store, key, longer, dict.fromkeys(best, 0.0)) if longer else []

    async def _aggregates(self, query: Query) -> list[ShownNode]:
        return [] if self.tree is None else await self.tree.aggregates(query)

    async def _scoring_input(
        self, query: Query, segments: Sequence[Segment], memories: Sequence[Memory]
    ) -> tuple[ScoringInput, QuestionFeatures]:
        missing = [segment.segment_id for segment in self.cache.missing(segments, query.speakers)]
        stored = await read_line_features(self.store, query.key, missing)
        found = await self.cache.read_segments(segments, query.speakers, stored)
        texts = dict.fromkeys([*query.texts, *(m.text for m in memories)])
        read = await self.cache.read_texts(texts, query.speakers)
        vector = mixed_vector([read[text][1] for text in query.texts], query.weights)
        cosines = {memory.memory_id: float(read[memory.text][1] @ vector) for memory in memories}
        turns = [turn for one in found for turn in one.turns]
        nothing = np.zeros((0, len(vector)), dtype=np.float32)
        inputs = ScoringInput(
            turns=turns,
            where=positions(segments),
            vectors=np.concatenate([nothing, *(one.vectors for one in found)]),
            features=np.concatenate([np.zeros((0, len(COLUMNS))), *(one.features for one in found)]),
            memory=_memory_scores([turn.line.utterance_id for turn in turns], memories, cosines),
        )
        hints = read_question(query.text, query.speakers, query.asker)
        return inputs, QuestionFeatures(hints, query.terms, vector, len(query.speakers))


def _segment_ids(key: str, places_: Iterable[tuple[int, int]]) -> list[str]:
    """The ids of segments by (session, index); not all need to exist."""
    return list(dict.fromkeys(segment_id(key, session, index) for session, index in places_))


def _bounded(segments: Iterable[Segment], max_lines: int) -> list[Segment]:
    """The first segments without duplicates, within the bound on lines; at least one."""
    kept: dict[str, Segment] = {}
    lines = 0
    for segment in segments:
        if segment.segment_id not in kept and (not kept or lines + len(segment.lines) <= max_lines):
            kept[segment.segment_id] = segment
            lines += len(segment.lines)
    return list(kept.values())


def _memory_scores(ids: Sequence[str], memories: Sequence[Memory], cosines: Mapping[str, float]) -> Floats:
    """For each utterance the best cosine of the found memories that rest on it; the least of all if none does."""
    best: dict[str, float] = {}
    for memory in memories:
        for line in memory.evidence:
            best[line.utterance_id] = max(best.get(line.utterance_id, -1.0), cosines[memory.memory_id])
    least = min(cosines.values(), default=0.0)
    return np.asarray([best.get(id_, least) for id_ in ids], dtype=np.float64)
