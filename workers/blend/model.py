"""The blender that uses a language model."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.blend.checks import fault_of, good_part, insights_of
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.prompt import (
    MAX_QUESTION_CHARS,
    NAME,
    BlendContext,
    blend_prompt,
    latest_lines,
    question_prompt,
)
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.turn import CODE, LATEST, Blend, BlendInput
from eunoe.workers.models.questions.answer_forms import InsightsForm, QuestionForm
from eunoe.workers.models.questions.asking import CheckedQuestion, ask_question, ask_unrecorded
from eunoe.workers.models.questions.prompt_lines import speakers_in

_CLIPPED_CHARS = 300
"""Characters of a line in the shortest question."""


class ModelBlender:
    """Asks the model twice a turn: for a question to memory, and for insights.

    A faulty insight is asked for once more; after that the good ones are kept. Without any valid answer the offline
    blender decides. A question that is too long is asked with the latest half of its lines, then with clipped ones.
    """

    def __init__(self, model: LanguageModel, offline: OfflineBlender, settings: BlendSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """A question about the session so far, above all its last line (CREEM, section 3.1)."""
        asked = await ask_question(self._model, _question(self._shown(lines), self._settings.max_line_chars, urgent))
        if asked.answer is None:
            return await self._offline.question(lines, urgent=urgent)
        return " ".join(asked.answer.question.split())[:MAX_QUESTION_CHARS]

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The insights, and the shown memories that each replaces (CREEM, section 3.2)."""
        context = BlendContext(
            lines=self._shown(turn.lines),
            memories=turn.memories,
            noted=turn.earlier,
            max_line_chars=self._settings.max_line_chars,
            max_insights=self._settings.max_insights,
        )
        asked = await ask_question(self._model, _insights(context, urgent))
        if asked.answer is None:
            found = await self._offline.blend(turn, urgent=urgent)
            update = {"prompt": NAME, "fallback": True, "items": 1, "fell_back": 1}
            return replace(found, made_by=found.made_by.model_copy(update=update))
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME, items=1)
        return Blend(insights_of(asked.answer, context), made_by)

    def _shown(self, lines: Sequence[Line]) -> tuple[Line, ...]:
        return latest_lines(lines, self._settings.prompt_budget_tokens, self._settings.max_line_chars, LATEST)


def _question(lines: Sequence[Line], max_chars: int, urgent: bool) -> CheckedQuestion[QuestionForm]:
    async def shorter(model: LanguageModel) -> QuestionForm | None:
        fewer, chars = _less(lines, max_chars)
        return (await ask_unrecorded(model, _question(fewer, chars, urgent))).answer

    return CheckedQuestion(
        question_prompt(lines, max_chars),
        QuestionForm,
        lambda answer: None if answer.question.strip() else "the question is blank",
        smaller=shorter if _can_be_less(lines, max_chars) else None,
        urgent=urgent,
    )


def _insights(context: BlendContext, urgent: bool) -> CheckedQuestion[InsightsForm]:
    async def shorter(model: LanguageModel) -> InsightsForm | None:
        lines, chars = _less(context.lines, context.max_line_chars)
        part = replace(context, lines=tuple(lines), max_line_chars=chars)
        answer = (await ask_unrecorded(model, _insights(part, urgent))).answer
        return None if answer is None else renumbered(answer, part, context)

    return CheckedQuestion(
        blend_prompt(context),
        InsightsForm,
        lambda answer: fault_of(answer, context),
        smaller=shorter if _can_be_less(context.lines, context.max_line_chars) else None,
        repair=lambda answer: good_part(answer, context),
        urgent=urgent,
    )


def _can_be_less(lines: Sequence[Line], max_chars: int) -> bool:
    return len(lines) > LATEST or max_chars > _CLIPPED_CHARS


def _less(lines: Sequence[Line], max_chars: int) -> tuple[Sequence[Line], int]:
    """The latest half of the lines; of the last two, clipped ones."""
    if len(lines) > LATEST:
        return lines[-max(LATEST, len(lines) // 2) :], max_chars
    return lines, _CLIPPED_CHARS


def renumbered(answer: InsightsForm, part: BlendContext, whole: BlendContext) -> InsightsForm:
    """Insights of the last lines of a dialogue, with the numbers of lines and speakers in the whole of it."""
    offset = len(whole.lines) - len(part.lines)
    there, here = speakers_in(part.lines), speakers_in(whole.lines)
    return InsightsForm(
        insights=tuple(
            row.model_copy(
                update={
                    "speaker": here.index(there[row.speaker - 1]) + 1 if 1 <= row.speaker <= len(there) else 0,
                    "lines": tuple(number + offset for number in row.lines),
                }
            )
            for row in answer.insights
        )
    )
