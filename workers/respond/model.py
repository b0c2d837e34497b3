"""The replier that uses a language model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.answer_forms import ReplyForm
from eunoe.workers.models.questions.asking import CheckedQuestion, ask_question, ask_unrecorded
from eunoe.workers.models.questions.markers import without_marks_of_rows
from eunoe.workers.respond.context import Row, same_day
from eunoe.workers.respond.offline.replier import OfflineReplier
from eunoe.workers.respond.prompt import (
    FUSED,
    REPLY,
    good_notes,
    good_reply,
    refine_fault,
    refine_prompt,
    refined_reply_prompt,
    reply_fault,
    reply_prompt,
    without_own_name,
    write_notes,
)
from eunoe.workers.respond.replier import CODE, DraftReply, ReplyTask
from eunoe.workers.respond.settings import Refine
from eunoe.workers.text.days import with_days_of
from eunoe.workers.text.printed_names import printed_name

Writer = Callable[[ReplyTask], Prompt]


@dataclass(frozen=True, slots=True)
class ModelReplier:
    """Replies in one call, or in two if timelines are refined separately.

    Without a valid answer the offline replier answers. A prompt that is too long for the endpoint is asked with the
    latest half of memory and dialogue. The provenance counts the questions and those without a valid answer.
    """

    model: LanguageModel
    offline: OfflineReplier
    refine: Refine

    async def reply(self, task: ReplyTask) -> DraftReply:
        """The model's reply and the rows it cites (THEANINE, equations 11 and 12)."""
        if not task.context.has_timelines or self.refine is Refine.OFF:
            return await self._reply(task, reply_prompt, REPLY)
        if self.refine is Refine.FUSED:
            return await self._reply(task, refined_reply_prompt, FUSED)
        refined = await self._refined(task)
        return _counted(await self._reply(refined or task, reply_prompt, REPLY), fell_back=refined is None)

    async def _reply(self, task: ReplyTask, write: Writer, prompt: str) -> DraftReply:
        asked = await ask_question(self.model, _reply_question(task, write))
        if asked.answer is None:
            reply = await self.offline.reply(task)
            update = {"fallback": True, "items": 1, "fell_back": 1}
            return replace(reply, made_by=reply.made_by.model_copy(update=update))
        rows, answer = task.rows, asked.answer
        text, marked = without_marks_of_rows(answer.text, rows, answer.cited)
        cited = tuple(rows[number] for number in sorted({*answer.cited, *marked}))
        text = _with_days(text, cited, task.question.at)
        made_by = Provenance(code=CODE, model=self.model.name, prompt=prompt, items=1)
        return DraftReply(without_own_name(text, printed_name(task.speak_as)).strip(), cited, made_by)

    async def _refined(self, task: ReplyTask) -> ReplyTask | None:
        """The task with notes in place of its timelines, without them if no note helps; `None` without a valid answer.

        What else the context shows stays before the notes.
        """
        asked = await ask_question(self.model, _refine_question(task))
        if asked.answer is None:
            return None
        return replace(task, context=task.context.without_timelines(write_notes(asked.answer.notes)))


def _with_days(text: str, cited: Sequence[Row], asked: datetime) -> str:
    """The text with the days of "tomorrow" and the like that it repeats of rows of another day than that of the ask."""
    return with_days_of(text, [(row.text, row.at.date()) for row in cited if not same_day(asked, row.at)])


def _counted(reply: DraftReply, *, fell_back: bool) -> DraftReply:
    """The reply with the question for notes counted, too."""
    made_by = reply.made_by
    update = {"items": made_by.items + 1, "fell_back": made_by.fell_back + fell_back}
    return replace(reply, made_by=made_by.model_copy(update=update))


def _reply_question(task: ReplyTask, write: Writer) -> CheckedQuestion[ReplyForm]:
    less = task.latest_half()

    async def shorter(model: LanguageModel) -> ReplyForm | None:
        return None if less is None else (await ask_unrecorded(model, _reply_question(less, write))).answer

    return CheckedQuestion(
        write(task),
        ReplyForm,
        lambda answer: reply_fault(answer, task),
        smaller=None if less is None else shorter,
        repair=lambda answer: good_reply(answer, task),
        urgent=True,
    )


def _refine_question(task: ReplyTask) -> CheckedQuestion[ReplyForm]:
    rows, less = task.rows, task.latest_half()

    async def shorter(model: LanguageModel) -> ReplyForm | None:
        return None if less is None else (await ask_unrecorded(model, _refine_question(less))).answer

    return CheckedQuestion(
        refine_prompt(task),
        ReplyForm,
        lambda answer: refine_fault(answer, rows),
        smaller=None if less is None else shorter,
        repair=lambda answer: good_notes(answer, rows),
        urgent=True,
    )
