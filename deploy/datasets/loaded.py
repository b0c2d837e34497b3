"""What a file of a conversation is read into."""

from dataclasses import dataclass

from eunoe.schemas.base import Identifier, Name, Text, Value
from eunoe.schemas.events import Erase, SessionEnded, Utterance

Played = Utterance | SessionEnded
"""What a demo or a benchmark plays into the log."""

ClientEvent = Utterance | SessionEnded | Erase
"""All that clients may produce."""


class EvalQuestion(Value):
    """A question about a conversation, with what a right answer rests on."""

    question: Text
    speaker: Name | None = None
    """Who asks; None: whoever plays the file decides."""
    evidence: tuple[Identifier, ...] = ()
    """The ids of the utterances that hold the answer; empty where nothing does."""
    category: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    """One conversation, ready to be played."""

    conversation_id: str
    events: tuple[Played, ...]
    """In the order of the log; every event is of this conversation."""
    questions: tuple[EvalQuestion, ...]

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """The utterances alone, in order."""
        return tuple(event for event in self.events if isinstance(event, Utterance))
