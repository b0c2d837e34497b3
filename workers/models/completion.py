"""Reads the used parts of a chat completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.reading import without_thoughts

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of an answer."""

    content: str
    finish_reason: str
    refusal: bool
    """Whether the model refused to answer."""
    tokens: tuple[int, int] | None
    """Tokens of prompt and completion; `None` where the endpoint does not count them."""
    reasoning: str = ""
    """The thoughts, where the endpoint gives them apart."""

    @classmethod
    def read(cls, content: bytes) -> Self | None:
        """Parse a response; `None` for JSON that is no chat completion. Raises ``ValueError`` for other content."""
        parsed = orjson.loads(content)
        choices = parsed.get("choices") if isinstance(parsed, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None
        message = choices[0].get("message")
        if not isinstance(message, dict):
            return None
        return cls(
            content=_text(message.get("content")),
            finish_reason=str(choices[0].get("finish_reason")),
            refusal=bool(message.get("refusal")),
            tokens=_tokens(parsed.get("usage")),
            reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        )


def _text(content: object) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _tokens(usage: object) -> tuple[int, int] | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    return (prompt, completion) if isinstance(prompt, int) and isinstance(completion, int) else None


def answer_text(completion: Completion) -> str:
    """The answer's text. Some servers give all of it as thoughts."""
    if completion.content.strip() or completion.finish_reason == "length":
        return completion.content
    return completion.reasoning


def content_of(completion: Completion) -> str:
    """The text of a complete answer; raises `AnswerInvalid` for one that is filtered, refused or empty."""
    if completion.finish_reason == "content_filter":
        raise AnswerInvalid(
            "the endpoint's content filter cut the answer", AnswerFault.REFUSED, answer_text(completion)
        )
    if completion.refusal:
        raise AnswerInvalid("the model refused to answer", AnswerFault.REFUSED)
    text = answer_text(completion)
    if not without_thoughts(text).strip():
        raise AnswerInvalid("the answer is empty", AnswerFault.EMPTY)
    return text
