"""Strategy `segment`: topic segments within a token budget, in time order (SeCom, sections 2.1 and 2.3).

A long segment is shown in excerpts: its passages that share most with the question.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Line, Strategy
from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import StateStore
from eunoe.schemas.replies import Source
from eunoe.workers.compress.reads import read_frequencies, read_segments, read_stats
from eunoe.workers.respond.context import (
    Context,
    Row,
    excerpt_row,
    make_context,
    pack,
    write_day,
    write_row,
)
from eunoe.workers.respond.recall.sources import HybridSearch, Query
from eunoe.workers.text.passages import GAP, PassageSpan, cut_passages
from eunoe.workers.text.terms import idf, query_vector, terms
from eunoe.workers.text.tokens import count_tokens

MAX_TOKENS = 400
"""Tokens of a segment that is shown whole; of a longer one so much is shown in excerpts."""

Spans = tuple[tuple[int, int], ...]
"""(start, end) of the connected parts of an utterance that are shown."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a segment, whole or in excerpts."""

    line: Line
    spans: Spans = ()
    """Empty where it is shown whole."""

    @property
    def row(self) -> Row:
        """Its row, not yet numbered."""
        return excerpt_row(self.line, self.spans)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a segment, and its score."""

    segment: Segment
    score: float
    lines: tuple[ShownLine, ...]


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """Searches the denoised texts and shows the original ones."""

    store: StateStore
    search: HybridSearch
    parse: Callable[[str], Segment] = Segment.from_json
    """Parses a document; may cache."""

    async def recall(self, query: Query) -> Context:
        """The best segments that fit the budget, in time order."""
        stats, frequencies = await asyncio.gather(
            read_stats(self.store, query.key), read_frequencies(self.store, query.key, set(query.terms))
        )
        if not stats.segments:
            return Context()
        hits = await self.search.find(
            Collection.SEGMENTS, query, query_vector(query.terms, frequencies, stats.segments)
        )
        scores = {hit.id: hit.score for hit in hits}
        found = await read_segments(self.store, query.key, list(scores), self.parse)
        most = max(stats.segments, *frequencies.values(), 1)
        weights = {term: n * idf(frequencies.get(term, 0), most) for term, n in query.terms.items()}
        ranked = [Excerpt(one, scores[one.segment_id], shown_lines(one, weights)) for one in found]
        return pack(ranked, query.budget_tokens, lay_out_excerpts, shorter, least_tokens)


def shown_lines(segment: Segment, weights: Mapping[str, float]) -> tuple[ShownLine, ...]:
    """The lines of a segment; of a long one the passages with the most of the terms that ``weights`` has.

    Among equal passages the first ones are shown.
    """
    if sum(count_tokens(line.text) for line in segment.lines) <= MAX_TOKENS:
        return tuple(map(ShownLine, segment.lines))
    cut = [
        (place, piece, span)
        for place, line in enumerate(segment.lines)
        for piece, span in enumerate(cut_passages(line.text))
    ]
    fits = [_fit(segment.lines[place].text[span.start : span.end], weights) for place, _, span in cut]
    chosen: dict[int, dict[int, PassageSpan]] = {}
    left = MAX_TOKENS
    for index in sorted(range(len(cut)), key=lambda index: (-round(fits[index], 6), index)):
        place, piece, span = cut[index]
        if span.tokens <= left:
            chosen.setdefault(place, {})[piece] = span
            left -= span.tokens
    return tuple(ShownLine(segment.lines[place], _joined(chosen[place])) for place in sorted(chosen))


def _fit(text: str, weights: Mapping[str, float]) -> float:
    return sum(weights.get(term, 0.0) for term in set(terms(text)))


def _joined(pieces: Mapping[int, PassageSpan]) -> Spans:
    """The spans of pieces by their numbers, neighbours joined."""
    found: list[tuple[int, int]] = []
    for piece in sorted(pieces):
        span = pieces[piece]
        if piece - 1 in pieces:
            found[-1] = (found[-1][0], span.end)
        else:
            found.append((span.start, span.end))
    return tuple(found)


def shorter(excerpt: Excerpt) -> Excerpt | None:
    """The excerpt without its last line; `None` if it has only one."""
    return replace(excerpt, lines=excerpt.lines[:-1]) if len(excerpt.lines) > 1 else None


def least_tokens(excerpt: Excerpt) -> int:
    """A lower bound on its tokens in a context: its rows, less a gap mark that it may close."""
    return sum(count_tokens(write_row(one.row)) for one in excerpt.lines) - 1


def lay_out_excerpts(excerpts: Sequence[Excerpt]) -> Context:
    """Print excerpts in time order, with a day heading per session and a mark for each gap."""
    ordered = sorted(excerpts, key=lambda excerpt: (excerpt.segment.session, excerpt.segment.index))
    printed: list[str] = []
    rows: list[Row] = []
    before: Segment | None = None
    for excerpt in ordered:
        printed += _heading(before, excerpt.segment)
        fresh = [replace(one.row, number=number) for number, one in enumerate(excerpt.lines, len(rows) + 1)]
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
        utterance_ids=tuple(one.line.utterance_id for one in excerpt.lines),
        score=excerpt.score,
    )
