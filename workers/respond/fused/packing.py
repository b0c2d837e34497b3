"""What strategy `fused` shows: the best of all kinds under one budget, nothing paid for twice. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from eunoe.schemas.events import Source, Strategy
from eunoe.schemas.relations import Relation
from eunoe.workers.respond.context import Context, Row, make_context, write_day, write_row
from eunoe.workers.respond.timelines import HEADING
from eunoe.workers.text.tokens import count_tokens

DIGITS = 4
"""Digits of a score that count: a z-score stretches what an engine rounded."""

Order = tuple[int, int, int, int]
"""Session, segment in it, place in the segment, and what comes first at one place."""


@dataclass(frozen=True, slots=True)
class PackedUnit:
    """What is shown or left out as a whole."""

    score: float
    order: Order
    rows: tuple[Row, ...]
    source: Source
    tokens: int
    """What its rows cost, a day's heading not counted."""
    relations: tuple[Relation, ...] = ()
    """Of a timeline: what stands between its rows."""
    notes: tuple[str, ...] = ()
    """Of a timeline: what stands behind each row, its day first."""
    is_extract: bool = False
    """Its rows say only a part of what the utterances behind them say."""

    @property
    def is_timeline(self) -> bool:
        """A timeline has days of its own and stands in a block."""
        return bool(self.notes)

    @property
    def cites(self) -> frozenset[str]:
        """The utterances that it shows or rests on."""
        return frozenset(id_ for row in self.rows for id_ in row.cites)

    @property
    def covers(self) -> frozenset[str]:
        """The utterances that need not be shown beside it."""
        return frozenset() if self.is_extract else self.cites


def tokens_of(rows: Sequence[Row]) -> int:
    """What rows cost; a number of any length is one token."""
    return sum(count_tokens(write_row(row)) for row in rows)


def timeline_tokens(rows: Sequence[Row], notes: Sequence[str], relations: Sequence[Relation]) -> int:
    """What a timeline costs."""
    return count_tokens("\n".join(_timeline_lines(rows, notes, relations)))


def choose(units: Sequence[PackedUnit], budget_tokens: int) -> Context:
    """The best units whose context fits the budget, in time order.

    What does not fit is passed over, and smaller ones further down may still come. A unit that rests on nothing but
    what better ones show is left out.
    """
    chosen: list[PackedUnit] = []
    covered: set[str] = set()
    days: set[tuple[int, str]] = set()
    left = budget_tokens
    for unit in sorted(units, key=lambda unit: (-round(unit.score, DIGITS), unit.order, unit.source.id)):
        if unit.tokens > left:
            continue
        heading = _heading(unit)
        cost = unit.tokens + (0 if heading in days else count_tokens(heading[1]))
        if cost > left or unit.cites <= covered:
            continue
        chosen.append(unit)
        covered |= unit.covers
        days.add(heading)
        left -= cost
    context = lay_out_units(chosen)
    while context.tokens > budget_tokens:  # a timeline between them prints a day once more
        chosen.pop()
        context = lay_out_units(chosen)
    return context


def _heading(unit: PackedUnit) -> tuple[int, str]:
    return unit.order[0], write_day(unit.rows[-1].at)


def lay_out_units(units: Sequence[PackedUnit]) -> Context:
    """Units in time order, the day once while it stays the same, timelines as blocks with days of their own."""
    printed: list[str] = []
    rows: list[Row] = []
    day = ""
    ordered = sorted(units, key=lambda unit: (unit.order, unit.source.id))
    for unit in ordered:
        fresh = [replace(row, number=number) for number, row in enumerate(unit.rows, len(rows) + 1)]
        rows += fresh
        if unit.is_timeline:
            printed += _timeline_lines(fresh, unit.notes, unit.relations)
            day = ""
            continue
        if (today := write_day(fresh[0].at)) != day:
            printed.append(today)
            day = today
        printed += map(write_row, fresh)
    return make_context(printed, _sources(ordered), rows)


def _timeline_lines(rows: Sequence[Row], notes: Sequence[str], relations: Sequence[Relation]) -> list[str]:
    printed = [HEADING]
    for row, note, relation in zip_longest(rows, notes, relations):
        printed.append(f"{write_row(row)} ({note})")
        if relation is not None:
            printed.append(relation.value)
    return printed


def _sources(units: Sequence[PackedUnit]) -> list[Source]:
    """One source per unit, but utterances of one segment that follow each other are one."""
    found: list[Source] = []
    for unit in units:
        last = found[-1] if found else None
        source = unit.source
        if source.kind is Strategy.SEGMENT:
            source = source.model_copy(update={"score": round(unit.score, 6)})
        if last is not None and _same_segment(last, source):
            ids = tuple(dict.fromkeys((*last.utterance_ids, *source.utterance_ids)))
            found[-1] = last.model_copy(update={"utterance_ids": ids, "score": max(last.score, source.score)})
        else:
            found.append(source)
    return found


def _same_segment(last: Source, source: Source) -> bool:
    return last.kind is Strategy.SEGMENT and source.kind is Strategy.SEGMENT and last.id == source.id
