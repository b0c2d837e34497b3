"""Packs the best candidates of all kinds into one budget, without repetition, for strategy `fused`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, nsmallest

from eunoe.schemas.replies import LeftOut, LeftOutReason
from eunoe.workers.respond.context import Context, excerpt_row, heading_of, mark_past, write_ordinal
from eunoe.workers.respond.fused.layout import lay_out_units
from eunoe.workers.respond.fused.units import Candidate, Order, PackedUnit, ScoredPassage
from eunoe.workers.respond.left_out import MOST, Unnamed, few
from eunoe.workers.text.passages import GAP
from eunoe.workers.text.tokens import count_tokens

DIGITS = 4
"""Digits to which scores are rounded: a z-score amplifies rounding differences of engines."""
FURTHER = 0.5
"""Subtracted from a passage for each passage of its utterance that is chosen already."""
GAP_TOKENS = count_tokens(GAP)
BELOW = 4 * MOST
"""Candidates below the budget that are looked at, to name the best of them."""


@dataclass(slots=True)
class _Choice:
    """The candidates chosen so far, and the tokens that are left."""

    left: int
    units: list[PackedUnit] = field(default_factory=list)
    excerpts: dict[str, list[ScoredPassage]] = field(default_factory=dict)
    """Utterance id → its chosen passages."""
    order: list[Candidate] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)
    """Utterances that another unit stands for, or that are shown whole."""
    days: set[tuple[int, str]] = field(default_factory=set)
    refused: list[Candidate] = field(default_factory=list)
    """Candidates that did not fit into what was left."""
    better: int = 0
    """Those of them that rank above the last one that was taken."""

    def add(self, one: Candidate) -> None:
        """Take a candidate where it fits and says more than what is chosen already."""
        if isinstance(one, PackedUnit):
            heading = one.order[0], heading_of(one.rows[-1])
            if one.cites <= self.covered or not self._pay(one, one.tokens, heading):
                return
            self.units.append(one)
            self.covered |= one.covers
        else:
            if one.utterance_id in self.covered:
                return
            if one.tokens - GAP_TOKENS > self.left:  # its cost is no less: a gap that closes gives one back
                self.refused.append(one)
                return
            chosen = self.excerpts.get(one.utterance_id, [])
            heading = one.order[0], write_ordinal(one.passage.day)
            if not self._pay(one, _cost(one, chosen), heading):
                return
            self.excerpts[one.utterance_id] = [*chosen, one]
            if len(chosen) + 1 == len(one.passage.spans):
                self.covered.add(one.utterance_id)
        self.order.append(one)

    def _pay(self, one: Candidate, tokens: int, heading: tuple[int, str]) -> bool:
        cost = tokens + (0 if heading in self.days else count_tokens(heading[1]))
        if cost > self.left:
            self.refused.append(one)
            return False
        self.left -= cost
        self.better = len(self.refused)
        self.days.add(heading)
        return True

    def drop_last(self) -> Candidate:
        """Take back what was chosen last."""
        last = self.order.pop()
        if isinstance(last, PackedUnit):
            self.units.remove(last)
        elif len(chosen := self.excerpts[last.utterance_id]) > 1:
            self.excerpts[last.utterance_id] = chosen[:-1]
        else:
            del self.excerpts[last.utterance_id]
        return last

    def context(self) -> Context:
        """The chosen candidates as a context."""
        return lay_out_units([*self.units, *map(_excerpt, self.excerpts.values())])


def _cost(one: ScoredPassage, chosen: Sequence[ScoredPassage]) -> int:
    """The tokens that a passage adds to the chosen ones of its utterance; a gap that closes gives one back."""
    pieces = [other.passage.piece for other in chosen]
    last = len(one.passage.spans) - 1
    gaps = _gaps([*pieces, one.passage.piece], last)
    if not pieces:
        return one.passage.row_tokens + one.tokens + GAP_TOKENS * gaps + _mark_tokens(one)
    return one.tokens + GAP_TOKENS * (gaps - _gaps(pieces, last))


def _mark_tokens(one: ScoredPassage) -> int:
    return count_tokens(f" ({one.past})") if one.past else 0


def _gaps(pieces: Iterable[int], last: int) -> int:
    """The gap marks of an excerpt: before, between and behind the runs of its pieces."""
    runs = _runs(pieces)
    return len(runs) - 1 + (runs[0][0] > 0) + (runs[-1][-1] < last)


def _runs(pieces: Iterable[int]) -> list[list[int]]:
    """The pieces in order, in runs of neighbours."""
    runs: list[list[int]] = []
    for piece in sorted(pieces):
        if runs and runs[-1][-1] == piece - 1:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _excerpt(chosen: Sequence[ScoredPassage]) -> PackedUnit:
    """The row of the chosen passages of one utterance."""
    first = chosen[0].passage
    spans = [
        (first.spans[run[0]].start, first.spans[run[-1]].end) for run in _runs(one.passage.piece for one in chosen)
    ]
    row = mark_past(excerpt_row(first.line, spans), chosen[0].past)
    score = max(one.score for one in chosen)
    return PackedUnit(score, (*first.order, 0), (row,), first.source(round(score, 6)), 0)


def choose(candidates: Iterable[Candidate], budget_tokens: int, hidden: Sequence[LeftOut] = ()) -> Context:
    """Choose the best candidates that fit the budget, and print them in time order.

    One that does not fit is skipped; smaller ones after it may still fit. A unit that rests only on utterances covered
    by better ones is left out. Further passages of an utterance count less, the more of it is shown. ``hidden`` was
    found and is no candidate.
    """
    choice = _Choice(budget_tokens)
    queue = [_queued(one, 0, place) for place, one in enumerate(candidates)]
    heapify(queue)
    while queue and choice.left > 0:
        *_, known, place, one = heappop(queue)
        shown = len(choice.excerpts.get(one.utterance_id, ())) if isinstance(one, ScoredPassage) else 0
        if shown > known:
            heappush(queue, _queued(one, shown, place))
        else:
            choice.add(one)
    context = choice.context()
    while context.tokens > budget_tokens:  # a timeline between two units repeats a day heading
        choice.refused.insert(choice.better, choice.drop_last())
        context = choice.context()
    below = [*choice.refused[choice.better :], *(entry[-1] for entry in nsmallest(BELOW, queue))]
    found: list[LeftOut | Unnamed] = [*hidden]
    found += (_unnamed(LeftOutReason.BUDGET, one) for one in choice.refused[: choice.better])
    found += [_unnamed(LeftOutReason.RANK, one) for one in below]
    return replace(context, left_out=few(found, {id_ for row in context.rows for id_ in row.cites}))


def _unnamed(reason: LeftOutReason, one: Candidate) -> Unnamed:
    score = round(one.score, 6)
    if isinstance(one, PackedUnit):
        return Unnamed(reason, score, one.source.session, one.source.utterance_ids, lambda: one.source)
    return Unnamed(reason, score, one.order[0], (one.utterance_id,), one.source)


_Queued = tuple[float, Order, tuple[str, ...], int, int, int, Candidate]


def _queued(one: Candidate, shown: int, place: int) -> _Queued:
    """An entry of the queue, best first; ties in log order, then by the memories behind it, then by ``place``."""
    if isinstance(one, PackedUnit):
        ids = (one.source.id, *one.source.memory_ids)
        return -round(one.score, DIGITS), one.order, ids, -1, shown, place, one
    return -round(one.score - FURTHER * shown, DIGITS), (*one.order, 0), (), one.place, shown, place, one
