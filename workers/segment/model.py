"""The segmenter that uses a language model."""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.answer_forms import StartRow, StartsForm
from eunoe.workers.models.questions.asking import CheckedQuestion, ask_unrecorded, side_by_side
from eunoe.workers.models.questions.parts import ask_parts
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.prompt import NAME, SegmentContext, fault_of, first_rows, row_cost, rows_of, segment_prompt
from eunoe.workers.segment.segmenter import CODE, Segmentation
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.spans import spans_from, stitch, units_of, windows

_MIN_ROWS = 4
"""Rows that a question is not halved below."""
_MAX_OVERLAP = 6
"""Rows that the halves of a question share."""


class ModelSegmenter:
    """Asks one question a session, or one per window of a long one, for the first rows of the segments.

    Whatever rows are answered, they tile the window. A window without a valid answer is decided by the offline
    segmenter.
    """

    def __init__(self, model: LanguageModel, offline: OfflineSegmenter, settings: SegmentSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """Segments that tile ``lines``; raises `Unavailable` if the endpoint is unavailable.

        A session of one unit has only one tiling: it needs no call.
        """
        units = units_of(lines, self._settings.unit)
        if len(units) <= 1:
            return await self._offline.segment(lines)
        places, parts = await self._ask(lines, units)
        fell_back = sum(part is None for part in parts)
        counts = {"prompt": NAME, "items": len(parts), "fell_back": fell_back}
        if fell_back == len(parts):
            found = await self._offline.segment(lines)
            made_by = found.made_by.model_copy(update={**counts, "fallback": True})
            return Segmentation(found.spans, made_by)
        tilings = await self._tilings(lines, units, places, parts)
        spans = tuple(Span(first=units[s.first].first, last=units[s.last].last) for s in stitch(tilings))
        made_by = Provenance(code=CODE, model=self._model.name).model_copy(update=counts)
        return Segmentation(spans, made_by)

    async def _ask(
        self, lines: Sequence[Line], units: Sequence[Span]
    ) -> tuple[Sequence[Span], list[Sequence[Span] | None]]:
        """The windows over the units, and the tiling of each; `None` for one without a valid answer."""
        rows = rows_of(lines, units, self._settings.max_unit_chars)
        costs = [row_cost(row) for row in rows]
        places = windows(costs, self._settings.prompt_budget_tokens, self._settings.overlap_units)

        def question(place: Span) -> CheckedQuestion[StartsForm]:
            return _Window(tuple(rows[place.first : place.last + 1]), self._settings).question()

        asked = await ask_parts(self._model, places, question, _halves)
        return [place for place, _ in asked], [None if form is None else _tiling(form, place) for place, form in asked]

    async def _tilings(
        self,
        lines: Sequence[Line],
        units: Sequence[Span],
        places: Sequence[Span],
        parts: Sequence[Sequence[Span] | None],
    ) -> list[Sequence[Span]]:
        """The tilings of all windows, those without an answer by the offline segmenter."""
        if None not in parts:
            return [part for part in parts if part is not None]
        offline = {span.first for span in (await self._offline.segment(lines)).spans}
        starts = [number for number, unit in enumerate(units) if unit.first in offline]
        return [_shifted(starts, place) if part is None else part for place, part in zip(places, parts, strict=True)]


def _tiling(answer: StartsForm, place: Span) -> list[Span]:
    """The tiling of a window by the rows that an answer names, numbered from 1 in the window."""
    rows = first_rows(answer, place.last - place.first + 1)
    return _shifted([place.first + row - 1 for row in rows], place)


def _shifted(starts: Sequence[int], place: Span) -> list[Span]:
    """The tiling of a window that begins at those of the session's ``starts`` that lie in it."""
    tiling = spans_from((start - place.first for start in starts), place.last - place.first + 1)
    return [Span(first=place.first + span.first, last=place.first + span.last) for span in tiling]


def _halves(place: Span) -> tuple[Span, ...]:
    """The two halves of a window, which share some units; none of one that is too short."""
    n = place.last - place.first + 1
    if n < 2 * _MIN_ROWS:
        return ()
    first, second = _cut(n)
    return (
        Span(first=place.first, last=place.first + first - 1),
        Span(first=place.first + second, last=place.last),
    )


def _cut(n: int) -> tuple[int, int]:
    """Where the first half of ``n`` rows ends, and where the second begins: they share some rows."""
    shared = min(_MAX_OVERLAP, n // 4) // 2
    return n // 2 + shared, n // 2 - shared


@dataclass(frozen=True, slots=True)
class _Window:
    """The rows of one question, or of a part of it."""

    rows: tuple[str, ...]
    settings: SegmentSettings

    def question(self) -> CheckedQuestion[StartsForm]:
        """The question for the first rows of segments; too large a one is asked in two parts."""
        n = len(self.rows)
        return CheckedQuestion(
            segment_prompt(SegmentContext(rows=self.rows, unit=self.settings.unit)),
            StartsForm,
            lambda answer: fault_of(answer, n),
            smaller=self._in_halves if n >= 2 * _MIN_ROWS else None,
        )

    async def _in_halves(self, model: LanguageModel) -> StartsForm | None:
        """The starts of both halves, which share some rows; `None` where one of them has no answer."""
        n = len(self.rows)
        first, second = _cut(n)
        parts = (_Window(self.rows[:first], self.settings), _Window(self.rows[second:], self.settings))
        asked = await side_by_side(ask_unrecorded(model, part.question()) for part in parts)
        if asked[0].answer is None or asked[1].answer is None:
            return None
        left = spans_from((row - 1 for row in first_rows(asked[0].answer, first)), first)
        right = spans_from((row - 1 for row in first_rows(asked[1].answer, n - second)), n - second)
        moved = [Span(first=second + span.first, last=second + span.last) for span in right]
        return StartsForm(starts=tuple(StartRow(row=span.first + 1) for span in stitch([left, moved])))
