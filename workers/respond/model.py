"""The replier that uses a language model."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eunoe.schemas.events import Provenance, Strategy
from eunoe.schemas.ports import LanguageModel
from eunoe.workers.models.asking import ask_checked
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.offline import OfflineReplier
from eunoe.workers.respond.prompt import (
    FUSED,
    REPLY,
    Note,
    RefineAnswer,
    RefinedReplyAnswer,
    ReplyAnswer,
    refine_fault,
    refine_prompt,
    refined_reply_prompt,
    reply_fault,
    reply_prompt,
)
from eunoe.workers.respond.replier import CODE, DraftReply, ReplyTask
from eunoe.workers.respond.settings import Refine
from eunoe.workers.text.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class ModelReplier:
    """Replies in one call, or in two if timelines are refined separately.

    If an answer is invalid twice, the offline replier answers.
    """

    model: LanguageModel
    offline: OfflineReplier
    refine: Refine

    async def reply(self, task: ReplyTask) -> DraftReply:
        """The model's reply and the rows it cites (THEANINE, equations 11 and 12)."""
        if not _has_timelines(task.context) or self.refine is Refine.OFF:
            return await self._reply(task)
        if self.refine is Refine.FUSED:
            return await self._refined_reply(task)
        return await self._reply(await self._refined(task))

    async def _reply(self, task: ReplyTask) -> DraftReply:
        rows = task.rows
        asked = await ask_checked(
            self.model, reply_prompt(task), ReplyAnswer, lambda answer: reply_fault(answer, rows), urgent=True
        )
        return await self._answer(task, asked.answer, REPLY)

    async def _refined_reply(self, task: ReplyTask) -> DraftReply:
        rows = task.rows
        asked = await ask_checked(
            self.model,
            refined_reply_prompt(task),
            RefinedReplyAnswer,
            lambda answer: reply_fault(answer, rows),
            urgent=True,
        )
        return await self._answer(task, asked.answer, FUSED)

    async def _answer(
        self, task: ReplyTask, answer: ReplyAnswer | RefinedReplyAnswer | None, prompt: str
    ) -> DraftReply:
        if answer is None:
            reply = await self.offline.reply(task)
            return replace(reply, made_by=reply.made_by.model_copy(update={"fallback": True}))
        rows = task.rows
        cited = tuple(rows[number] for number in sorted(set(answer.cited)))
        return DraftReply(answer.text.strip(), cited, Provenance(code=CODE, model=self.model.name, prompt=prompt))

    async def _refined(self, task: ReplyTask) -> ReplyTask:
        """The task with notes in place of raw timelines; unchanged if no refinement is valid.

        If the context has more than timelines, its rows stay and the notes follow them.
        """
        rows = task.rows
        asked = await ask_checked(
            self.model, refine_prompt(task), RefineAnswer, lambda answer: refine_fault(answer, rows), urgent=True
        )
        if asked.answer is None or not asked.answer.notes:
            return task
        notes = write_notes(asked.answer.notes)
        alone = all(source.kind is Strategy.TIMELINE for source in task.context.sources)
        text = notes if alone else f"{task.context.text}\n{notes}"
        return replace(task, context=replace(task.context, text=text, tokens=count_tokens(text)))


def write_notes(notes: Iterable[Note]) -> str:
    """Refined timelines as the prompt shows them: each note with the rows it cites."""
    return "\n".join(f"- {' '.join(note.text.split())} (rows {', '.join(map(str, note.cited))})" for note in notes)


def _has_timelines(context: Context) -> bool:
    return any(source.kind is Strategy.TIMELINE for source in context.sources)
