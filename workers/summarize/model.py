"""The summarizer that uses a language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Line, Provenance, Span
from eunoe.schemas.memory import MemoryDraft
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.answer_forms import MemoriesForm, MemoryRow
from eunoe.workers.models.questions.asking import CheckedQuestion, ask_unrecorded, side_by_side
from eunoe.workers.models.questions.parts import ask_parts
from eunoe.workers.models.questions.prompt_lines import line_cost, speakers_in
from eunoe.workers.summarize.answer import Window, drafts_of, fault_of, good_part, renumbered
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.prompt import NAME, SummarizeContext, summarize_prompt
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.summarizer import CODE, Summary
from eunoe.workers.summarize.windows import windows
from eunoe.workers.text.drafts import limit_bytes, without_repeats


class ModelSummarizer:
    """Asks one question a session, or one per window of a long one, side by side.

    A faulty memory is asked for once more; after that the good ones are kept. A window without any valid answer is
    decided by the offline summarizer.
    """

    def __init__(self, model: LanguageModel, offline: OfflineSummarizer, settings: SummarizeSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def summarize(self, lines: Sequence[Line], spans: Sequence[Span]) -> Summary:
        """The memories of a session; raises `Unavailable` if the endpoint is unavailable.

        A session without evidence has no memories and needs no call.
        """
        if not speakers_in(lines):
            return await self._offline.summarize(lines, spans)
        asked = await ask_parts(self._model, self._windows(lines, spans), self._question, _halves)
        found = [answer for _, answer in asked]
        counts = {"prompt": NAME, "items": len(found), "fell_back": found.count(None)}
        if found.count(None) == len(found):
            summary = await self._offline.summarize(lines, spans)
            made_by = summary.made_by.model_copy(update={**counts, "fallback": True})
            return Summary(summary.drafts, made_by)
        drafts: list[MemoryDraft] = []
        for window, answer in asked:
            drafts += await self._drafts(answer, window)
        kept = limit_bytes(without_repeats(drafts), self._settings.max_evidence_bytes)
        return Summary(kept, Provenance(code=CODE, model=self._model.name).model_copy(update=counts))

    def _windows(self, lines: Sequence[Line], spans: Sequence[Span]) -> list[Window]:
        """The windows that hold evidence."""
        costs = [line_cost(line, self._settings.max_line_chars) for line in lines]
        found = [
            Window(tuple(lines[span.first : span.last + 1]), span.first + 1)
            for span in windows(costs, spans, self._settings.prompt_budget_tokens)
        ]
        return _with_evidence(found)

    async def _drafts(self, answer: MemoriesForm | None, window: Window) -> Sequence[MemoryDraft]:
        if answer is None:
            alone = (Span(first=0, last=len(window.lines) - 1),)
            return (await self._offline.summarize(window.lines, alone)).drafts
        return drafts_of(answer, window, self._settings.max_memories)

    def _question(self, window: Window) -> CheckedQuestion[MemoriesForm]:
        context = SummarizeContext(
            lines=window.lines,
            first=window.first,
            max_line_chars=self._settings.max_line_chars,
            max_memories=self._settings.max_memories,
        )

        async def in_halves(model: LanguageModel) -> MemoriesForm | None:
            """The memories of both halves; `None` where one of them has no answer."""
            parts = _with_evidence(window.halves())
            asked = await side_by_side(ask_unrecorded(model, self._question(part)) for part in parts)
            rows: list[MemoryRow] = []
            for part, one in zip(parts, asked, strict=True):
                if one.answer is None:
                    return None
                rows += [renumbered(row, part, window) for row in one.answer.memories]
            return MemoriesForm(memories=tuple(rows))

        return CheckedQuestion(
            summarize_prompt(context),
            MemoriesForm,
            lambda answer: fault_of(answer, window),
            smaller=in_halves if len(window.lines) > 1 else None,
            repair=lambda answer: good_part(answer, window),
        )


_MIN_LINES = 4
"""Lines that a refused window is not halved below: alone they say too little."""


def _halves(window: Window) -> list[Window]:
    """The halves of a window that hold evidence; none of one that is too short."""
    return _with_evidence(window.halves()) if len(window.lines) >= 2 * _MIN_LINES else []


def _with_evidence(parts: Sequence[Window]) -> list[Window]:
    return [part for part in parts if speakers_in(part.lines)]
