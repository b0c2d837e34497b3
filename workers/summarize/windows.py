"""Splits a long session into windows at the ends of topic segments."""

from collections.abc import Iterator, Sequence

from eunoe.schemas.events import Span


def windows(costs: Sequence[int], spans: Sequence[Span], budget: int) -> tuple[Span, ...]:
    """Windows that tile the lines of ``costs`` tokens, each within ``budget`` tokens or of a single line.

    Windows end where segments end; only a segment above the budget is split.
    """
    found: list[Span] = []
    for piece in (part for span in spans for part in _pieces(costs, span, budget)):
        if found and sum(costs[found[-1].first : piece.last + 1]) <= budget:
            found[-1] = Span(first=found[-1].first, last=piece.last)
        else:
            found.append(piece)
    return tuple(found)


def _pieces(costs: Sequence[int], span: Span, budget: int) -> Iterator[Span]:
    """Yield the segment, or as few parts of it as the budget allows."""
    first, spent = span.first, 0
    for line in range(span.first, span.last + 1):
        if line > first and spent + costs[line] > budget:
            yield Span(first=first, last=line - 1)
            first, spent = line, 0
        spent += costs[line]
    yield Span(first=first, last=span.last)
