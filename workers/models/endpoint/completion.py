"""Reads the used parts of a chat completion."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeGuard

import orjson

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.workers.models.endpoint.answering_model import named_model
from eunoe.workers.models.endpoint.event_stream import is_event_stream, joined_events
from eunoe.workers.models.questions.json_text import without_thoughts

Json = Mapping[str, Any]

_FINISHES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("max_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("sensitive", "safety", "prohibited_content", "blocklist", "recitation"), "content_filter"),
    **dict.fromkeys(("insufficient_system_resource", "network_error", "abort", "aborted"), "error"),
}
"""Words of other servers → those used here: Mistral, Gemini, DeepSeek, Z.AI, vLLM."""
_MAX_CHARS: Final = 100_000
"""Characters of an answer: about four times those of the longest that is asked for. To read many more of what is no
JSON takes seconds, in which nothing else is done."""
_MAX_TOKENS: Final = 10_000_000
"""Tokens of a prompt or an answer that an endpoint may have counted."""
_WITHOUT_MESSAGE: Final = frozenset({"length", "content_filter"})
"""Ends of answers that have no text and, from some servers, no message either."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of an answer."""

    content: str
    finish_reason: str
    """``length``, ``content_filter`` or ``error`` in whatever words the server says so; else its own word."""
    refusal: bool
    """Whether the model refused to answer."""
    tokens: tuple[int, int] | None
    """Tokens of prompt and completion; `None` where the endpoint does not count them."""
    reasoning: str = ""
    """The thoughts, where the endpoint gives them apart."""
    model: str = ""
    """The model that the answer names."""

    @classmethod
    def read(cls, content: bytes) -> Self | None:
        """Parse a response; `None` for JSON that is no chat completion.

        Raises ``ValueError`` for content that is no JSON, `ErrorInBody` for an error in place of an answer.
        """
        parsed = _parsed(content)
        choice = _first_choice(parsed)
        if (error := _error_in(parsed, choice)) is not None:
            raise ErrorInBody(error)
        finish = _finish(choice.get("finish_reason"))
        message = choice.get("message")
        if not isinstance(message, dict) and finish not in _WITHOUT_MESSAGE:
            return None
        message = message if isinstance(message, dict) else {}
        return cls(
            content=_bounded(_text(message.get("content")) or _arguments(message.get("tool_calls"))),
            finish_reason=finish,
            refusal=bool(message.get("refusal")),
            tokens=_tokens(parsed.get("usage") if isinstance(parsed, dict) else None),
            reasoning=_bounded(_text(message.get("reasoning_content")) or _text(message.get("reasoning"))),
            model=named_model(parsed),
        )


def completion_refused(error: object) -> Completion | None:
    """The answer that an error document holds; `None` for any other error.

    Groq checks the JSON of an answer itself, and refuses the request for an answer that is none or was cut off.
    """
    if not isinstance(error, dict) or error.get("code") != "json_validate_failed":
        return None
    was_cut = "max completion tokens" in str(error.get("message")).casefold()
    return Completion(_text(error.get("failed_generation")), "length" if was_cut else "stop", False, None)


class ErrorInBody(Exception):
    """A response of status 200 tells an error, as gateways do whose provider fails after they have begun to answer."""

    def __init__(self, error: Json) -> None:
        super().__init__("an error in place of an answer")
        self.error = error
        """The error document: ``message``, ``code``."""


def _parsed(content: bytes) -> object:
    """The JSON document, also one with lone surrogates in it, such as half of an emoji; that of a stream of events.

    Raises ``ValueError``.
    """
    if is_event_stream(content):
        return joined_events(content)
    try:
        return orjson.loads(content)
    except ValueError:
        if b"\\u" not in content:
            raise
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _first_choice(parsed: object) -> Json:
    """The first choice of an answer; empty where there is none."""
    choices = parsed.get("choices") if isinstance(parsed, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _error_in(parsed: object, choice: Json) -> Json | None:
    """The error document of a response that has no complete answer; `None` where it has none."""
    finish = _finish(choice.get("finish_reason"))
    told = choice.get("error") if finish != "stop" else None
    if not choice and isinstance(parsed, dict):
        told = parsed.get("error")
    if told:
        return told if isinstance(told, dict) else {"message": str(told)}
    return {"message": "the answer was broken off"} if finish == "error" else None


def _finish(reason: object) -> str:
    """The reason why an answer ended, in the words used here; ``content_filter: SAFETY`` is ``content_filter``."""
    word = str(reason).casefold().partition(":")[0].strip()
    return _FINISHES.get(word, word)


def _text(content: object) -> str:
    """A text, or the texts of a list of parts; what is no text in it becomes a question mark."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        return ""
    return content if content.isascii() else content.encode("utf-8", "replace").decode()


def _arguments(calls: object) -> str:
    """The arguments of the first call of a tool: some bridges ask for a form as a tool, and hand its call on."""
    call = calls[0] if isinstance(calls, list) and calls else None
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    return _text(orjson.dumps(arguments).decode() if isinstance(arguments, dict) else arguments)


def _bounded(text: str) -> str:
    """The text; of a very long one, which a model's thoughts may be, the beginning of what is no thought."""
    return text if len(text) <= _MAX_CHARS else without_thoughts(text)[:_MAX_CHARS]


def _tokens(usage: object) -> tuple[int, int] | None:
    """Tokens of prompt and completion; `None` where they are not counted, or cannot be."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens", 0)
    return (prompt, completion) if _is_count(prompt) and _is_count(completion) else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value <= _MAX_TOKENS


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
