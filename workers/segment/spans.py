"""Spans over a session's units: tilings, windows of a long session, and their joining."""

from collections.abc import Iterable, Sequence

from eunoe.schemas.events import Line, Span
from eunoe.workers.segment.settings import Unit


def spans_from(starts: Iterable[int], n: int) -> tuple[Span, ...]:
    """The spans that begin at ``starts`` and tile 0 to ``n - 1``; 0 is always a start, others outside are ignored."""
    if not n:
        return ()
    cuts = sorted({0, *(start for start in starts if 0 < start < n)})
    return tuple(Span(first=a, last=b - 1) for a, b in zip(cuts, [*cuts[1:], n], strict=True))


def exchanges(lines: Sequence[Line]) -> tuple[Span, ...]:
    """The exchanges of a dialogue: a new one begins when a speaker of the last one speaks again after an answer."""
    starts: list[int] = []
    heard: set[str] = set()
    for i, line in enumerate(lines):
        if line.speaker in heard and lines[i - 1].speaker != line.speaker:
            starts.append(i)
            heard = set()
        heard.add(line.speaker)
    return spans_from(starts, len(lines))


def units_of(lines: Sequence[Line], unit: Unit) -> tuple[Span, ...]:
    """The units of segments, as spans over ``lines``: single lines or exchanges."""
    return exchanges(lines) if unit == "exchange" else spans_from(range(len(lines)), len(lines))


def windows(costs: Sequence[int], budget: int, overlap: int) -> tuple[Span, ...]:
    """Windows over units of ``costs`` tokens, each within ``budget`` tokens or of a single unit.

    Each window shares up to ``overlap`` units with the one before it, fewer if the budget requires, and extends beyond
    it. One window if everything fits.
    """
    found: list[Span] = []
    first = 0
    while first < len(costs) and (not found or found[-1].last < len(costs) - 1):
        span = Span(first=first, last=_reach(costs, first, budget))
        found.append(span)
        first = _next_first(costs, span, budget, overlap)
    return tuple(found)


def _reach(costs: Sequence[int], first: int, budget: int) -> int:
    spent = costs[first]
    last = first
    while last + 1 < len(costs) and spent + costs[last + 1] <= budget:
        last += 1
        spent += costs[last]
    return last


def _next_first(costs: Sequence[int], span: Span, budget: int, overlap: int) -> int:
    first = max(span.first + 1, span.last + 1 - overlap)
    while first <= span.last and sum(costs[first : span.last + 2]) > budget:
        first += 1
    return first


def stitch(parts: Sequence[Sequence[Span]]) -> tuple[Span, ...]:
    """Join the tilings of overlapping windows, in session order, to one tiling.

    Two neighbours are joined at their common boundary nearest to the middle of the overlap; without one, a segment
    crosses the middle.
    """
    merged: list[Span] = []
    for part in parts:
        merged = _join(merged, part) if merged else list(part)
    return tuple(merged)


def _join(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    begin, end = right[0].first, left[-1].last
    if begin == end + 1:
        return [*left, *right]
    before = {span.first for span in left}
    after = {span.first for span in right[1:]}
    # a window cannot judge a boundary at its own edge: there the other window decides
    common = (before & (after | {begin})) | (after & {end + 1})
    middle = (begin + end + 1) // 2
    seam = min(common, key=lambda start: (abs(start - middle), start), default=middle)
    starts = {start for start in before if start <= seam} | {start for start in after if start >= seam}
    return list(spans_from(starts if seam in common else starts - {seam}, right[-1].last + 1))
