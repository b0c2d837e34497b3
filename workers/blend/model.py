"""The blender that uses a language model."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.blend.checks import fault_of, insights_of
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.prompt import (
    NAME,
    BlendAnswer,
    BlendContext,
    QuestionAnswer,
    blend_prompt,
    latest_lines,
    question_prompt,
)
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.turn import CODE, LATEST, Blend, BlendInput
from eunoe.workers.models.asking import ask_checked


class ModelBlender:
    """Asks the model twice a turn: for a question to memory, and for insights.

    An invalid answer is asked once more with the fault named; after that the offline blender decides.
    """

    def __init__(self, model: LanguageModel, offline: OfflineBlender, settings: BlendSettings) -> None:
        self._model = model
        self._offline = offline
        self._settings = settings

    async def question(self, lines: Sequence[Line], *, urgent: bool) -> str:
        """A question about the session so far, above all its last line (CREEM, section 3.1)."""
        prompt = question_prompt(self._shown(lines), self._settings.max_line_chars)
        asked = await ask_checked(self._model, prompt, QuestionAnswer, _question_fault, urgent=urgent)
        if asked.answer is None:
            return await self._offline.question(lines, urgent=urgent)
        return " ".join(asked.answer.question.split())

    async def blend(self, turn: BlendInput, *, urgent: bool) -> Blend:
        """The insights, and the shown memories that each replaces (CREEM, section 3.2)."""
        context = BlendContext(
            lines=self._shown(turn.lines),
            memories=turn.memories,
            noted=turn.earlier,
            max_line_chars=self._settings.max_line_chars,
            max_insights=self._settings.max_insights,
        )
        asked = await ask_checked(
            self._model, blend_prompt(context), BlendAnswer, lambda answer: fault_of(answer, context), urgent=urgent
        )
        if asked.answer is None:
            found = await self._offline.blend(turn, urgent=urgent)
            return replace(found, made_by=found.made_by.model_copy(update={"prompt": NAME, "fallback": True}))
        made_by = Provenance(code=CODE, model=self._model.name, prompt=NAME)
        return Blend(insights_of(asked.answer, context), made_by)

    def _shown(self, lines: Sequence[Line]) -> tuple[Line, ...]:
        return latest_lines(lines, self._settings.prompt_budget_tokens, self._settings.max_line_chars, LATEST)


def _question_fault(answer: QuestionAnswer) -> str | None:
    return None if answer.question.strip() else "the question is blank"
