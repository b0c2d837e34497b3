"""Strategy `segment`: topic segments within a token budget, in time order (SeCom, sections 2.1 and 2.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Source, Strategy
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.reads import read_frequencies, read_segments, read_stats
from eunoe.workers.respond.context import GAP, Context, Row, line_row, make_context, pack, write_day, write_row
from eunoe.workers.respond.sources import HybridSearch, Query
from eunoe.workers.text.terms import query_vector
from eunoe.workers.text.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The first ``lines`` lines of a segment, and its score."""

    segment: Segment
    score: float
    lines: int


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """Searches the denoised texts and shows the original ones."""

    store: StateStore
    search: HybridSearch
    parse: Callable[[str], Segment] = Segment.from_json
    """Parses a document; may cache."""

    async def recall(self, query: Query) -> Context:
        """The best segments that fit the budget, in time order."""
        stats = await read_stats(self.store, query.key)
        if not stats.segments:
            return Context()
        frequencies = await read_frequencies(self.store, query.key, set(query.terms))
        hits = await self.search.find(
            Collection.SEGMENTS, query, query_vector(query.terms, frequencies, stats.segments)
        )
        scores = {hit.id: hit.score for hit in hits}
        found = await read_segments(self.store, query.key, list(scores), self.parse)
        ranked = [Excerpt(segment, scores[segment.segment_id], len(segment.lines)) for segment in found]
        return pack(ranked, query.budget_tokens, lay_out_excerpts, shorter, least_tokens)


def shorter(excerpt: Excerpt) -> Excerpt | None:
    """The excerpt without its last line; `None` if it has only one."""
    return replace(excerpt, lines=excerpt.lines - 1) if excerpt.lines > 1 else None


def least_tokens(excerpt: Excerpt) -> int:
    """A lower bound on its tokens in a context: its rows, less a gap mark that it may close."""
    rows = (line_row(0, line) for line in excerpt.segment.lines[: excerpt.lines])
    return sum(count_tokens(write_row(row)) for row in rows) - 1


def lay_out_excerpts(excerpts: Sequence[Excerpt]) -> Context:
    """Print excerpts in time order, with a day heading per session and a mark for each gap."""
    ordered = sorted(excerpts, key=lambda excerpt: (excerpt.segment.session, excerpt.segment.index))
    printed: list[str] = []
    rows: list[Row] = []
    before: Segment | None = None
    for excerpt in ordered:
        printed += _heading(before, excerpt.segment)
        fresh = [
            line_row(number, line) for number, line in enumerate(excerpt.segment.lines[: excerpt.lines], len(rows) + 1)
        ]
        rows += fresh
        printed += map(write_row, fresh)
        before = excerpt.segment
    return make_context(printed, [_source(excerpt) for excerpt in ordered], rows)


def _heading(before: Segment | None, segment: Segment) -> list[str]:
    if before is None or before.session != segment.session:
        return [write_day(segment.lines[0].at)]
    return [] if before.index + 1 == segment.index else [GAP]


def _source(excerpt: Excerpt) -> Source:
    segment = excerpt.segment
    return Source(
        kind=Strategy.SEGMENT,
        id=segment.segment_id,
        session=segment.session,
        at=segment.lines[0].at,
        utterance_ids=segment.utterance_ids[: excerpt.lines],
        score=excerpt.score,
    )
