"""Reads the used parts of a chat completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

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
        text = message.get("content")
        return cls(
            content=text if isinstance(text, str) else "",
            finish_reason=str(choices[0].get("finish_reason")),
            refusal=bool(message.get("refusal")),
            tokens=_tokens(parsed.get("usage")),
        )


def _tokens(usage: object) -> tuple[int, int] | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    return (prompt, completion) if isinstance(prompt, int) and isinstance(completion, int) else None
