"""The segmenter that uses a language model."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.prompt import NAME, SegmentContext, SegmentsAnswer, row_cost, rows_of, segment_prompt
from eunoe.workers.segment.segmenter import CODE, Segmentation
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.spans import stitch, units_of, windows


class ModelSegmenter:
    """Asks one question a session, or one per window of a long one.

    An answer is valid if it tiles its window. An invalid one is asked once more with the fault named; after that the
    offline segmenter decides the whole session.
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
        spans = await self._ask(lines, units)
        if spans is None:
            found = await self._offline.segment(lines)
            return replace(found, made_by=found.made_by.model_copy(update={"prompt": NAME, "fallback": True}))
        return Segmentation(spans, Provenance(code=CODE, model=self._model.name, prompt=NAME))

    async def _ask(self, lines: Sequence[Line], units: Sequence[Span]) -> tuple[Span, ...] | None:
        rows = rows_of(lines, units, self._settings.max_unit_chars)
        costs = [row_cost(row) for row in rows]
        parts: list[list[Span]] = []
        for window in windows(costs, self._settings.prompt_budget_tokens, self._settings.overlap_units):
            part = await self._ask_window(rows[window.first : window.last + 1], window.first)
            if part is None:
                return None
            parts.append(part)
        return tuple(Span(first=units[s.first].first, last=units[s.last].last) for s in stitch(parts))

    async def _ask_window(self, rows: tuple[str, ...], offset: int) -> list[Span] | None:
        """The window's segments, as spans over the units of the session; `None` if no answer is valid."""
        prompt = segment_prompt(SegmentContext(rows=rows, unit=self._settings.unit))
        asked = await ask_checked(self._model, prompt, SegmentsAnswer, lambda answer: answer.fault(len(rows)))
        if asked.answer is None:
            return None
        return [Span(first=offset + s.start - 1, last=offset + s.end - 1) for s in asked.answer.segments]
