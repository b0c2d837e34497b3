"""What answers: the task, its answer, and the port that the model and its offline twin share."""

from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Line, Provenance
from eunoe.workers.respond.context import Context, Row

CODE = "respond/1"


@dataclass(frozen=True, slots=True)
class ReplyTask:
    """All that a reply may rest on."""

    speak_as: str
    question: Line
    dialogue: tuple[Row, ...]
    """The current session, numbered on from the memory's last number."""
    context: Context
    speakers: tuple[str, ...]

    @property
    def rows(self) -> dict[int, Row]:
        """All that an answer may cite, by number."""
        return {row.number: row for row in (*self.context.rows, *self.dialogue)}


@dataclass(frozen=True, slots=True)
class DraftReply:
    """What is said, and the rows that it rests on."""

    text: str
    cited: tuple[Row, ...]
    made_by: Provenance


class Replier(Protocol):
    """Answers as a participant of the conversation."""

    async def reply(self, task: ReplyTask) -> DraftReply:
        """Raises `Unavailable` when a model's endpoint is."""
        ...
