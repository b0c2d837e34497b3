"""Types of a conversation read from a file."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, Text, Value
from eunoe.schemas.events import Erase, SessionEnded, Utterance

Played = Utterance | SessionEnded
"""Events that a demo or a benchmark plays into the log."""

ClientEvent = Utterance | SessionEnded | Erase
"""All events that clients may produce."""


class EvalQuestion(Value):
    """A question about a conversation, with its evidence and the right answer."""

    question: Text
    speaker: Name | None = None
    """Name of the asker; `None` leaves the choice to the player of the file."""
    evidence: tuple[Identifier, ...] = ()
    """Ids of the utterances that contain the answer; empty where none do."""
    category: str | None = None
    conversation_id: Identifier | None = None
    """The conversation that it is about; `None` means every one of its file."""
    answer: str | None = None
    gold_text: Mapping[Identifier, tuple[str, ...]] = Field(default_factory=dict)
    """Utterance id → its sentences that hold the answer; evidence without an entry counts by words it shares."""
    roles: Mapping[str, tuple[Identifier, ...]] = Field(default_factory=dict)
    """Role of evidence, as original and updated → ids; a question with two roles needs both."""
    corrected: tuple[Identifier, ...] | None = None
    """The evidence as corrected by others; `None` where nobody checked it."""


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    """One conversation, ready to be played."""

    conversation_id: str
    events: tuple[Played, ...]
    """Events of this conversation in log order."""
    questions: tuple[EvalQuestion, ...]

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """The utterances alone, in order."""
        return tuple(event for event in self.events if isinstance(event, Utterance))
