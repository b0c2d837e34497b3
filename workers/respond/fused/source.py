"""Strategy `fused`: candidates of all sources, scored together under one budget."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunoe.schemas.decisions import Collection
from eunoe.schemas.memory import Memory, Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import read_frequencies, read_readings, read_segments, read_stats, segment_id
from eunoe.workers.link.reads import TimelineSettings, read_timelines
from eunoe.workers.respond.asked import read_question
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.fused.candidates import CandidateScores
from eunoe.workers.respond.fused.packing import choose
from eunoe.workers.respond.fused.scoring import FeatureWeights, Material, QuestionFeatures, score_turns
from eunoe.workers.respond.histories import histories, only_outdated
from eunoe.workers.respond.memories import MemorySearch
from eunoe.workers.respond.parses import Parses
from eunoe.workers.respond.sources import HybridSearch, Query
from eunoe.workers.respond.timelines import ShownTimeline, show_timelines
from eunoe.workers.respond.turns import FACTS, Floats, places
from eunoe.workers.respond.wordings import Wordings
from eunoe.workers.text.terms import query_vector, terms
from eunoe.workers.update.reads import read_memories

SESSIONS_OF_MEMORIES = 8
"""Sessions that are read for a found memory's sake where no segment search found its utterances."""
SEGMENTS_OF_SESSION = 64
"""Segments read of such a session."""
SUCCESSIONS = 4
"""How many steps of supersession are followed."""


@dataclass(frozen=True, slots=True)
class FusedSource:
    """Finds segments and memories by the index, then scores their utterances one by one."""

    store: StateStore
    finder: HybridSearch
    wordings: Wordings
    timelines: TimelineSettings
    max_lines: int
    weights: FeatureWeights = field(default_factory=FeatureWeights)
    segments: Parses[Segment] = field(default_factory=lambda: Parses(Segment.from_json))
    memories: Parses[Memory] = field(default_factory=lambda: Parses(Memory.from_json))

    async def recall(self, query: Query) -> Context:
        """The best utterances, memories, histories and insights that fit, in time order."""
        read = await self.wordings.read([query.text], query.speakers)
        query = replace(query, vector=read[query.text][1])
        search = MemorySearch(self.store, self.finder, self.memories)
        found, hits = await asyncio.gather(self._segments(query), search.find(query))
        memories = [memory for memory, _ in hits]
        segments = await self._with_evidence(query.key, found, memories)
        known, linked = await asyncio.gather(self._known(query.key, memories), self._linked(query.key, memories))
        material, sought = await self._material(query, segments, memories)
        board = CandidateScores.of(material.turns, score_turns(material, sought, self.weights), self.weights.length)
        replaced = {id_ for insight in query.insights for id_ in insight.replaces}
        units = [
            *board.utterances(only_outdated(known.values(), replaced), query.budget_tokens),
            *board.memories(memories, replaced),
            *board.histories(histories(memories, known), sought.asked),
            *board.timelines(linked),
            *board.insights(query),
        ]
        return choose(units, query.budget_tokens)

    async def _segments(self, query: Query) -> list[Segment]:
        """The segments that searches find, best first, then their neighbours, as many as the bound on lines lets."""
        stats = await read_stats(self.store, query.key)
        if not stats.segments:
            return []
        words = terms(query.text, drop=query.speakers)
        frequencies = await read_frequencies(self.store, query.key, set(words))
        hits = await self.finder.find(Collection.SEGMENTS, query, query_vector(words, frequencies, stats.segments))
        found = await read_segments(self.store, query.key, [hit.id for hit in hits], self.segments)
        beside = [(one.session, one.index + step) for one in found for step in (-1, 1) if one.index + step >= 0]
        near = await read_segments(self.store, query.key, _segment_ids(query.key, beside), self.segments)
        return _bounded([*found, *near], self.max_lines)

    async def _with_evidence(self, key: str, found: Sequence[Segment], memories: Sequence[Memory]) -> list[Segment]:
        """In log order, with the sessions of found memories whose utterances are not among them."""
        seen = {id_ for segment in found for id_ in segment.utterance_ids}
        missing = (m.session for m in memories if any(line.utterance_id not in seen for line in m.evidence))
        sessions = list(dict.fromkeys(missing))[:SESSIONS_OF_MEMORIES]
        wanted = [(session, index) for session in sessions for index in range(SEGMENTS_OF_SESSION)]
        more = await read_segments(self.store, key, _segment_ids(key, wanted), self.segments)
        return sorted(_bounded([*found, *more], self.max_lines), key=lambda one: (one.session, one.index))

    async def _known(self, key: str, memories: Sequence[Memory]) -> dict[str, Memory]:
        """The memories with their successors, a few steps far."""
        known = {memory.memory_id: memory for memory in memories}
        for _ in range(SUCCESSIONS):
            next_ = {one.ending.by: None for one in known.values() if one.ending is not None and one.ending.by}
            fresh = await read_memories(self.store, key, [id_ for id_ in next_ if id_ not in known], self.memories)
            if not fresh:
                break
            known |= {memory.memory_id: memory for memory in fresh}
        return known

    async def _linked(self, key: str, memories: Sequence[Memory]) -> list[ShownTimeline]:
        """The timelines of the best memories, those that are more than the memory itself."""
        best = [memory.memory_id for memory in memories][: self.timelines.retrieved]
        found = await read_timelines(self.store, key, best, self.timelines) if best else []
        longer = [timeline for timeline in found if len(timeline.memories) > 1]
        return await show_timelines(self.store, key, longer, dict.fromkeys(best, 0.0)) if longer else []

    async def _material(
        self, query: Query, segments: Sequence[Segment], memories: Sequence[Memory]
    ) -> tuple[Material, QuestionFeatures]:
        unread = [segment.segment_id for segment in self.wordings.unread(segments, query.speakers)]
        stored = await read_readings(self.store, query.key, unread)
        found = await self.wordings.read_segments(segments, query.speakers, stored)
        read = await self.wordings.read(dict.fromkeys([query.text, *(m.text for m in memories)]), query.speakers)
        vector = read[query.text][1]
        cosines = {memory.memory_id: float(read[memory.text][1] @ vector) for memory in memories}
        turns = [turn for one in found for turn in one.turns]
        nothing = np.zeros((0, len(vector)), dtype=np.float32)
        material = Material(
            turns=turns,
            where=places(segments),
            vectors=np.concatenate([nothing, *(one.vectors for one in found)]),
            facts=np.concatenate([np.zeros((0, len(FACTS))), *(one.facts for one in found)]),
            memory=_memory_scores([turn.line.utterance_id for turn in turns], memories, cosines),
        )
        asked = read_question(query.text, query.speakers, query.asker)
        words = tuple(read[query.text][0].counts.items())
        return material, QuestionFeatures(
            asked, [word for word, n in words for _ in range(n)], vector, len(query.speakers)
        )


def _segment_ids(key: str, places_: Iterable[tuple[int, int]]) -> list[str]:
    """The ids of segments by (session, index); of some there may be none."""
    return list(dict.fromkeys(segment_id(key, session, index) for session, index in places_))


def _bounded(segments: Iterable[Segment], max_lines: int) -> list[Segment]:
    """Each segment once, the first ones, at least one, while their lines stay within the bound."""
    kept: dict[str, Segment] = {}
    lines = 0
    for segment in segments:
        if segment.segment_id not in kept and (not kept or lines + len(segment.lines) <= max_lines):
            kept[segment.segment_id] = segment
            lines += len(segment.lines)
    return list(kept.values())


def _memory_scores(ids: Sequence[str], memories: Sequence[Memory], cosines: Mapping[str, float]) -> Floats:
    """Of each utterance the best cosine of the found memories that rest on it; their least where none does."""
    best: dict[str, float] = {}
    for memory in memories:
        for line in memory.evidence:
            best[line.utterance_id] = max(best.get(line.utterance_id, -1.0), cosines[memory.memory_id])
    least = min(cosines.values(), default=0.0)
    return np.asarray([best.get(id_, least) for id_ in ids], dtype=np.float64)
