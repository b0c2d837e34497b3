"""The port of a replier: its task and its answer."""

from dataclasses import dataclass, replace
from typing import Protocol

from eunoe.schemas.events import Line, Provenance
from eunoe.workers.respond.context import MIN_ROWS, Context, Row

CODE = "respond/1"


@dataclass(frozen=True, slots=True)
class ReplyTask:
    """The input of a reply."""

    speak_as: str
    question: Line
    dialogue: tuple[Row, ...]
    """The current session, numbered after the rows of memory."""
    context: Context
    speakers: tuple[str, ...]
    persona: str = ""
    """The product's words about the speaker of the reply; empty if there are none."""

    def latest_half(self) -> "ReplyTask | None":
        """The task with the latest half of memory and dialogue; `None` if there is hardly any."""
        context = self.context.latest_half()
        if context is None and len(self.dialogue) < MIN_ROWS:
            return None
        kept = self.dialogue[len(self.dialogue) // 2 :] if len(self.dialogue) >= MIN_ROWS else self.dialogue
        return replace(self, context=context or self.context, dialogue=kept)

    @property
    def rows(self) -> dict[int, Row]:
        """Number → row, for all rows that an answer may cite."""
        return {row.number: row for row in (*self.context.rows, *self.dialogue)}


@dataclass(frozen=True, slots=True)
class DraftReply:
    """The text of a reply, the rows it cites, and its provenance."""

    text: str
    cited: tuple[Row, ...]
    made_by: Provenance


class Replier(Protocol):
    """Replies as a participant of the conversation."""

    async def reply(self, task: ReplyTask) -> DraftReply:
        """Reply to the question. Raises `Unavailable` if a model endpoint is unavailable."""
        ...
