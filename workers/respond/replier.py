"""The port of a replier: its task and its answer."""

from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance
from eunoe.workers.respond.context import Context, Row

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
