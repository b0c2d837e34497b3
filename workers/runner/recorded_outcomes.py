"""Recorded outcomes: timing-dependent results of decisions (an uninfused turn, a failure), for rebuilds."""

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import ValidationError

from eunoe.schemas.base import MAX_ID_CHARS, Value
from eunoe.schemas.decisions import OutMessage, Scope
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.codec import encode
from eunoe.streams.topics import Topic
from eunoe.workers.models.questions.recording import Answers


class RecordedOutcome(Value):
    """The part of a decision that asking the models again would not give."""

    failed: str | None = None
    """The error of a decision that raised at every attempt; `None` means that it did not."""
    attempts: int = 1
    recorded: str | None = None
    """`eunoe.schemas.decisions.Decision.recorded`."""


def outcome_name(scope: Scope, number: int) -> str:
    """The name of a decision among the recorded answers, the same in every generation."""
    name = f"moment:{quote(scope.stage, safe='')}:{scope.key}:{number}"
    if len(name) <= MAX_ID_CHARS:
        return name
    return f"moment:{hashlib.sha256(name.encode()).hexdigest()}"


def outcome_message(scope: Scope, number: int, outcome: RecordedOutcome | None) -> OutMessage:
    """The message that records an outcome; `None` deletes it: what had failed was decided after all."""
    text = "" if outcome is None else outcome.model_dump_json()
    answer = RecordedAnswer(request=outcome_name(scope, number), text=text)
    return OutMessage(topic=Topic.ANSWERS, key=answer.request, text=encode(answer).decode())


def is_failure(record: bytes) -> bool:
    """Whether a recorded answer is the outcome of a decision that raised at every attempt."""
    answer = RecordedAnswer.from_json(record)
    return bool(answer.text) and RecordedOutcome.from_json(answer.text).failed is not None


@dataclass(frozen=True, slots=True)
class RecordedOutcomes:
    """Looks up the outcomes that a rebuild repeats."""

    answers: Answers | None = None
    """`None` means that no outcome is repeated."""

    async def recall(self, scope: Scope, number: int) -> RecordedOutcome | None:
        """The recorded outcome of a decision, or `None`. Raises `Unavailable`."""
        if self.answers is None or scope.request_id:
            return None
        text = await self.answers.get(outcome_name(scope, number), scope.key)
        try:
            return RecordedOutcome.from_json(text) if text else None
        except ValidationError:
            return None
