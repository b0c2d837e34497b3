"""Strategy `timeline`: timelines of linked memories retrieved for the dialogue (THEANINE, section 2.2)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest

from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Strategy
from eunoe.schemas.identity import content_digest
from eunoe.schemas.memory import Memory
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Source
from eunoe.workers.link.reads import Timeline, TimelineSettings, VertexCache, read_timelines
from eunoe.workers.respond.context import Context, Row, make_context, memory_row, pack, write_row
from eunoe.workers.respond.histories import end_words, note, without_repetitions
from eunoe.workers.respond.recall.sources import HybridSearch, Query
from eunoe.workers.text.terms import query_vector
from eunoe.workers.update.reads import read_memories, read_memory_frequencies, read_memory_stats

HEADING = "Timeline"


@dataclass(frozen=True, slots=True)
class ShownTimeline:
    """A timeline with its memories, and the score of the retrieved one."""

    timeline: Timeline
    memories: tuple[Memory, ...]
    score: float
    at: datetime | None = None
    """Event time of the ask."""


TimelineLayout = Callable[[Sequence[ShownTimeline]], Context]


@dataclass(frozen=True, slots=True)
class TimelineSource:
    """Searches all memories, ended ones too: a timeline shows how things developed."""

    store: StateStore
    search: HybridSearch
    settings: TimelineSettings
    lay_out: TimelineLayout = field(default_factory=lambda: lay_out_timelines)
    """Prints timelines for the prompt; ablations replace it."""
    graph: VertexCache | None = None

    async def recall(self, query: Query) -> Context:
        """The timelines of the top-k memories that fit the budget; what only repeats a memory counts as that one."""
        stats, frequencies = await asyncio.gather(
            read_memory_stats(self.store, query.key),
            read_memory_frequencies(self.store, query.key, set(query.terms)),
        )
        hits = await self.search.find(
            Collection.MEMORIES, query, query_vector(query.terms, frequencies, stats.memories)
        )
        known = await read_memories(self.store, query.key, [hit.id for hit in hits])
        scores = {hit.id: hit.score for hit in hits}
        retrieved = [memory.memory_id for memory in without_repetitions(known)][: self.settings.retrieved]
        timelines = await read_timelines(self.store, query.key, retrieved, self.settings, self.graph)
        ranked = await show_timelines(self.store, query.key, timelines, scores, query.at)
        return pack(ranked, query.budget_tokens, self.lay_out, shorter)


async def show_timelines(
    store: StateStore,
    key: str,
    timelines: Sequence[Timeline],
    scores: Mapping[str, float],
    at: datetime | None,
    parse: Callable[[str], Memory] = Memory.from_json,
) -> list[ShownTimeline]:
    """Timelines with their memories; those with a missing memory are left out. ``at``: event time of the ask."""
    ids = list(dict.fromkeys(id_ for timeline in timelines for id_ in timeline.memories))
    memories = {memory.memory_id: memory for memory in await read_memories(store, key, ids, parse)}
    return [
        ShownTimeline(timeline, tuple(memories[id_] for id_ in timeline.memories), scores[timeline.retrieved], at)
        for timeline in timelines
        if all(id_ in memories for id_ in timeline.memories)
    ]


def shorter(shown: ShownTimeline) -> ShownTimeline | None:
    """The timeline without the end further from the retrieved memory; `None` if only that one is left."""
    ids = shown.timeline.memories
    place = ids.index(shown.timeline.retrieved)
    if len(ids) == 1:
        return None
    cut = slice(1, None) if place >= len(ids) - 1 - place else slice(None, -1)
    relations = shown.timeline.relations[cut]
    timeline = shown.timeline.model_copy(update={"memories": ids[cut], "relations": relations, "truncated": True})
    return ShownTimeline(timeline, shown.memories[cut], shown.score, shown.at)


def lay_out_timelines(shown: Sequence[ShownTimeline]) -> Context:
    """Print timelines in the order of their last memory; a repeated memory is printed once, then by number."""
    ordered = sorted(shown, key=lambda one: (one.memories[-1].order, one.timeline.memories))
    printed: list[str] = []
    rows: dict[str, Row] = {}
    for one in ordered:
        printed.append(HEADING)
        for memory, relation in zip_longest(one.memories, one.timeline.relations):
            printed.append(_written(memory, rows, one.at))
            if relation is not None:
                printed.append(relation.value)
    return make_context(printed, [timeline_source(one) for one in ordered], list(rows.values()))


def _written(memory: Memory, rows: dict[str, Row], at: datetime | None) -> str:
    if memory.memory_id in rows:
        return f"{rows[memory.memory_id].number}"
    row = replace(memory_row(len(rows) + 1, memory, at), in_timeline=True, past=end_words(memory, at))
    rows[memory.memory_id] = row
    return f"{write_row(replace(row, past=''))} ({note(memory, at)})"


def timeline_source(shown: ShownTimeline) -> Source:
    """The source of a timeline: its memories, relations and utterances."""
    ids = shown.timeline.memories
    last = shown.memories[-1]
    utterances = (line.utterance_id for memory in shown.memories for line in memory.evidence)
    return Source(
        kind=Strategy.TIMELINE,
        id=content_digest("\n".join(ids).encode()),
        session=last.session,
        at=last.at,
        utterance_ids=tuple(dict.fromkeys(utterances)),
        score=shown.score,
        memory_ids=ids,
        relations=shown.timeline.relations,
    )
