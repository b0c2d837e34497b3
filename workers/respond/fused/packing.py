"""Packs the best candidates of all kinds into one budget, without repetition, for strategy `fused`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from eunoe.schemas.events import Source, Strategy
from eunoe.schemas.relations import Relation
from eunoe.workers.respond.context import Context, Row, heading_of, make_context, write_row
from eunoe.workers.respond.timelines import HEADING
from eunoe.workers.text.tokens import count_tokens

DIGITS = 4
"""Digits to which scores are rounded: a z-score amplifies rounding differences of engines."""

Order = tuple[int, int, int, int]
"""Session, segment in it, place in the segment, and rank at one place."""


@dataclass(frozen=True, slots=True)
class PackedUnit:
    """A candidate that is shown or left out as a whole."""

    score: float
    order: Order
    rows: tuple[Row, ...]
    source: Source
    tokens: int
    """Tokens of its rows, without a day heading."""
    relations: tuple[Relation, ...] = ()
    """The relations between the rows of a timeline."""
    notes: tuple[str, ...] = ()
    """The notes behind the rows of a timeline, each beginning with its day."""
    is_extract: bool = False
    """Whether its rows repeat only a part of the utterances behind them."""

    @property
    def is_timeline(self) -> bool:
        """Whether it is a timeline, which is printed as a block with its own days."""
        return bool(self.notes)

    @property
    def cites(self) -> frozenset[str]:
        """Ids of the utterances that it shows or rests on."""
        return frozenset(id_ for row in self.rows for id_ in row.cites)

    @property
    def covers(self) -> frozenset[str]:
        """Ids of the utterances that need not be shown besides it."""
        return frozenset() if self.is_extract else self.cites


def tokens_of(rows: Sequence[Row]) -> int:
    """Tokens of rows; a row number of any length is one token."""
    return sum(count_tokens(write_row(row)) for row in rows)


def timeline_tokens(rows: Sequence[Row], notes: Sequence[str], relations: Sequence[Relation]) -> int:
    """Tokens of a timeline."""
    return count_tokens("\n".join(_timeline_lines(rows, notes, relations)))


def choose(units: Sequence[PackedUnit], budget_tokens: int) -> Context:
    """Choose the best units that fit the budget, and print them in time order.

    A unit that does not fit is skipped; smaller ones after it may still fit. A unit that rests only on utterances
    covered by better ones is left out.
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
    while context.tokens > budget_tokens:  # a timeline between two units repeats a day heading
        chosen.pop()
        context = lay_out_units(chosen)
    return context


def _heading(unit: PackedUnit) -> tuple[int, str]:
    return unit.order[0], heading_of(unit.rows[-1])


def lay_out_units(units: Sequence[PackedUnit]) -> Context:
    """Print units in time order under day headings; timelines are blocks with their own days."""
    printed: list[str] = []
    plain: list[str] = []
    rows: list[Row] = []
    day = plain_day = ""
    ordered = sorted(units, key=lambda unit: (unit.order, unit.source.id))
    for unit in ordered:
        fresh = [
            replace(row, number=number, in_timeline=unit.is_timeline)
            for number, row in enumerate(unit.rows, len(rows) + 1)
        ]
        rows += fresh
        if unit.is_timeline:
            printed += _timeline_lines(fresh, unit.notes, unit.relations)
            day = ""
            continue
        today, written = heading_of(fresh[0]), list(map(write_row, fresh))
        printed += written if today == day else [today, *written]
        plain += written if today == plain_day else [today, *written]
        day = plain_day = today
    return make_context(printed, _sources(ordered), rows, plain)


def _timeline_lines(rows: Sequence[Row], notes: Sequence[str], relations: Sequence[Relation]) -> list[str]:
    printed = [HEADING]
    for row, note, relation in zip_longest(rows, notes, relations):
        printed.append(f"{write_row(row)} ({note})")
        if relation is not None:
            printed.append(relation.value)
    return printed


def _sources(units: Sequence[PackedUnit]) -> list[Source]:
    """One source per unit; consecutive utterances of one segment share one."""
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
