"""Prints chosen units in time order under day headings."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from eunoe.schemas.events import Strategy
from eunoe.schemas.relations import Relation
from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import Context, Row, heading_of, make_context, write_row
from eunoe.workers.respond.fused.units import PackedUnit
from eunoe.workers.respond.recall.timelines import HEADING
from eunoe.workers.text.tokens import count_tokens


def timeline_tokens(rows: Sequence[Row], notes: Sequence[str], relations: Sequence[Relation]) -> int:
    """Tokens of a timeline."""
    return count_tokens("\n".join(_timeline_lines(rows, notes, relations)))


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
        if last is not None and _same_segment(last, source):
            ids = tuple(dict.fromkeys((*last.utterance_ids, *source.utterance_ids)))
            found[-1] = last.model_copy(update={"utterance_ids": ids, "score": max(last.score, source.score)})
        else:
            found.append(source)
    return found


def _same_segment(last: Source, source: Source) -> bool:
    return last.kind is Strategy.SEGMENT and source.kind is Strategy.SEGMENT and last.id == source.id
