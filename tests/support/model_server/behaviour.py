"""The limits and habits of model servers: caps, contexts, refusals in many words, wrappings, delays."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eunoe.workers.text.tokens import count_tokens


class Formats(StrEnum):
    """What the server makes of ``response_format``."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    """It is accepted, and the answer is in the words of the prompt alone."""
    REFUSED = "refused"


class Wrap(StrEnum):
    """What stands around the JSON of an answer."""

    NONE = "none"
    PROSE = "prose"
    FENCE = "fence"
    FENCE_AND_WORD = "fence-and-word"
    THINK = "think"
    THINKING = "thinking"
    REASONING_CONTENT = "reasoning-content"
    """Thoughts in ``reasoning_content``, the answer in ``content``."""
    EMPTY_CONTENT = "empty-content"
    """All of it in ``reasoning_content``, and no ``content``."""


class ItemFault(StrEnum):
    """What is wrong with one item of every answer that lists some."""

    LEFT_OUT = "left-out"
    TWICE = "twice"
    STRANGE_NUMBER = "strange-number"
    WRONG_TYPE = "wrong-type"
    BLANK = "blank"
    TOO_LONG = "too-long"
    OTHER_LANGUAGE = "other-language"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a server differs from one without limits."""

    words: str = "openai"
    """Whose words refusals are in: openai, azure, vllm, llama.cpp, ollama, tgi, litellm."""
    output_cap: int | None = None
    """The most tokens of an answer."""
    context: int | None = None
    """The most tokens of prompt and answer."""
    formats: Formats = Formats.HONOURED
    max_properties: int | None = None
    """The most properties of a schema."""
    max_enum_values: int | None = None
    """The most values of all enums of a schema."""
    wrap: Wrap = Wrap.NONE
    thinking_tokens: int = 0
    """Tokens that the model thinks for before an answer; with fewer it is cut off while thinking."""
    items: ItemFault | None = None
    filters: bool = False
    """Whether every answer is cut by a content filter."""
    filters_prompts: bool = False
    """Whether every prompt is refused by a content filter, with a 400."""
    flagged: str | None = None
    """Prompts whose data hold this text are refused by a content filter, with a 400."""
    garbled: str | None = None
    """Prompts whose data hold this text are answered with something that is no JSON."""
    declines: bool = False
    """Whether the model refuses to answer."""
    blank: bool = False
    """Whether every answer is empty."""
    status: int | None = None
    """The status of every answer: 401, 403, 404, 429, 500 …"""
    token_s: float = 0.0
    """Seconds for each token of an answer."""
    slow_over: int | None = None
    """Prompts of more tokens take ``slow_s``."""
    slow_s: float = 0.0
    first_use_s: float = 0.0
    """Seconds that a schema takes at its first use."""
    truncates: bool = False
    """Whether the connection ends in the middle of every answer."""
    refusals: float = math.inf
    """Requests that are refused at most; then all are taken, as by a proxy that chose a smaller model before."""


@dataclass(frozen=True, slots=True)
class RefusalBody:
    """A refused request, as a server words it."""

    status: int
    body: Mapping[str, Any]


def tokens_of(body: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of the messages, and those that the answer may have."""
    prompt = sum(count_tokens(message["content"]) for message in body["messages"])
    asked = body.get("max_completion_tokens") or body.get("max_tokens") or 256
    return prompt, int(asked)


def refusal(behaviour: Behaviour, body: Mapping[str, Any]) -> RefusalBody | None:
    """The refusal of a request; `None` for one that is taken."""
    if behaviour.status is not None:
        return RefusalBody(behaviour.status, _STATUS_BODIES.get(behaviour.status, _openai("it failed", "server_error")))
    if behaviour.filters_prompts or _holds(body, behaviour.flagged):
        return RefusalBody(
            400,
            _openai(
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                "content_filter",
            ),
        )
    prompt, asked = tokens_of(body)
    if behaviour.output_cap is not None and asked > behaviour.output_cap:
        return RefusalBody(*_CAP_WORDS.get(behaviour.words, _CAP_WORDS["openai"])(asked, behaviour.output_cap))
    if behaviour.context is not None and prompt + asked > behaviour.context:
        return RefusalBody(*_CONTEXT_WORDS[behaviour.words](prompt, asked, behaviour.context))
    return _format_refusal(behaviour, body.get("response_format") or {})


def _holds(body: Mapping[str, Any], text: str | None) -> bool:
    """Whether the user's message holds a text."""
    return text is not None and text in body["messages"][-1]["content"]


def _format_refusal(behaviour: Behaviour, wanted: Mapping[str, Any]) -> RefusalBody | None:
    if wanted and behaviour.formats is Formats.REFUSED:
        return RefusalBody(400, _openai("response_format is not supported", "invalid_request", "response_format"))
    schema = (wanted.get("json_schema") or {}).get("schema")
    if schema is None:
        return None
    properties, values = counts(schema)
    if behaviour.max_properties is not None and properties > behaviour.max_properties:
        return RefusalBody(400, _openai(f"Invalid schema: {properties} properties", "invalid_json_schema"))
    if behaviour.max_enum_values is not None and values > behaviour.max_enum_values:
        return RefusalBody(400, _openai(f"Invalid schema: {values} enum values", "invalid_json_schema"))
    return None


def counts(schema: object) -> tuple[int, int]:
    """The properties and the enum values of a schema, nested ones included."""
    if isinstance(schema, list):
        parts = [counts(part) for part in schema]
    elif isinstance(schema, dict):
        parts = [counts(part) for part in schema.values()]
        parts.append((len(schema.get("properties", {})), len(schema.get("enum", ()))))
    else:
        return 0, 0
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _openai(message: str, code: str | None, param: str | None = None) -> Mapping[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


_STATUS_BODIES: Mapping[int, Mapping[str, Any]] = {
    401: _openai("Incorrect API key provided", "invalid_api_key"),
    403: _openai("You are not allowed to use this model", "permission_denied"),
    404: _openai("The model does not exist", "model_not_found"),
    429: _openai("Rate limit reached", "rate_limit_exceeded"),
}

Words = Callable[[int, int, int], tuple[int, Mapping[str, Any]]]


def _openai_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    return 400, _openai(
        f"This model's maximum context length is {most} tokens. However, you requested {prompt + asked} tokens"
        f" ({prompt} in the messages, {asked} in the completion). Please reduce the length of the messages or"
        " completion.",
        "context_length_exceeded",
        "messages",
    )


def _vllm_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    message = (
        f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is {most}"
        f" tokens and your request has {prompt} input tokens ({asked} > {most} - {prompt})."
    )
    return 400, {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def _llama_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    message = f"request ({prompt + asked} tokens) exceeds the available context size ({most} tokens), try increasing it"
    return 400, {"error": {"code": 400, "message": message, "type": "exceed_context_size_error", "n_ctx": most}}


def _ollama_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    return 400, {"error": {"message": "the input length exceeds the context length", "type": "invalid_request_error"}}


def _tgi_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    message = (
        f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {most}. Given: {prompt} `inputs`"
        f" tokens and {asked} `max_new_tokens`"
    )
    return 422, {"error": message, "error_type": "validation"}


def _litellm_context(prompt: int, asked: int, most: int) -> tuple[int, Mapping[str, Any]]:
    message = (
        "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - prompt is too long:"
        f" {prompt + asked} tokens > {most} maximum"
    )
    return 400, {"error": {"message": message, "type": None, "param": None, "code": "400"}}


_CONTEXT_WORDS: Mapping[str, Words] = {
    "openai": _openai_context,
    "azure": _openai_context,
    "vllm": _vllm_context,
    "llama.cpp": _llama_context,
    "ollama": _ollama_context,
    "tgi": _tgi_context,
    "litellm": _litellm_context,
}
_CAP_WORDS: Mapping[str, Callable[[int, int], tuple[int, Mapping[str, Any]]]] = {
    "openai": lambda asked, cap: (
        400,
        _openai(
            f"max_tokens is too large: {asked}. This model supports at most {cap} completion tokens, whereas you"
            f" provided {asked}.",
            None,
            "max_tokens",
        ),
    ),
    "litellm": lambda asked, cap: (
        400,
        _openai(f"max_tokens: {asked} > {cap}, which is the maximum allowed number of output tokens", None),
    ),
    "tgi": lambda asked, cap: (422, {"error": f"`max_new_tokens` must be <= {cap}. Given: {asked}"}),
}


# ---- the answer


def answered(behaviour: Behaviour, text: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice of the answer: message and finish_reason."""
    _, asked = tokens_of(body)
    if behaviour.declines:
        return _choice({"content": None, "refusal": "I cannot help with that."})
    if behaviour.filters:
        return _choice({"content": text[: len(text) // 3]}, "content_filter")
    if behaviour.blank:
        return _choice({"content": ""})
    if asked < behaviour.thinking_tokens:
        return _choice({"content": "", "reasoning_content": "Let me think about it."}, "length")
    if _holds(body, behaviour.garbled):
        return _choice({"content": "I would rather speak of something else {[."})
    length = count_tokens(text)
    if asked < length:
        return _choice({"content": text[: len(text) * asked // length]}, "length")
    return _choice(_wrapped(behaviour.wrap, text))


def _choice(message: Mapping[str, Any], finish_reason: str = "stop") -> dict[str, Any]:
    return {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "refusal": None, **message}}


def _wrapped(wrap: Wrap, text: str) -> Mapping[str, Any]:
    thought = 'Perhaps {"starts": [1]}? No.'
    match wrap:
        case Wrap.PROSE:
            return {"content": f"Sure! Here is what you asked for:\n{text}\nLet me know if you need {{more}}."}
        case Wrap.FENCE:
            return {"content": f"```json\n{text}\n```"}
        case Wrap.FENCE_AND_WORD:
            return {"content": f"```\n{text}\n```\nDone."}
        case Wrap.THINK:
            return {"content": f"<think>{thought}</think>\n\n{text}"}
        case Wrap.THINKING:
            return {"content": f"<thinking>{thought}</thinking>{text}"}
        case Wrap.REASONING_CONTENT:
            return {"content": text, "reasoning_content": thought}
        case Wrap.EMPTY_CONTENT:
            return {"content": "", "reasoning_content": text}
        case _:
            return {"content": text}


def with_item_fault(fault: ItemFault | None, answer: Any) -> Any:
    """The answer with one bad item in each list of numbered items that has two or more."""
    if fault is None or not isinstance(answer, dict):
        return answer
    return {name: _spoiled(fault, part) for name, part in answer.items()}


def _spoiled(fault: ItemFault, rows: Any) -> Any:
    if not isinstance(rows, list) or len(rows) < 2 or not isinstance(rows[0], dict):
        return rows
    first, *others = rows
    number = next((name for name in ("n", "row", "own", "pair", "node") if name in first), None)
    text = next((name for name in ("text", "merged", "topic", "why", "summary", "reason") if name in first), None)
    match fault:
        case ItemFault.LEFT_OUT:
            return others
        case ItemFault.TWICE:
            return [first, {**first, **({} if text is None else {text: "something else"})}, *others]
        case ItemFault.STRANGE_NUMBER:
            return [{**first, **({} if number is None else {number: 1_000_000}), "lines": [999_999]}, *others]
        case ItemFault.WRONG_TYPE:
            return [{name: {"a": []} for name in first}, *others]
        case ItemFault.BLANK:
            return [{name: " " if isinstance(part, str) else part for name, part in first.items()}, *others]
        case ItemFault.TOO_LONG:
            return [{**first, **({} if text is None else {text: "word " * 2000})}, *others]
        case _:
            return [{**first, **({} if text is None else {text: "민아는 리옹에 산다."})}, *others]


def pause_s(behaviour: Behaviour, body: Mapping[str, Any], text: str) -> float:
    """Seconds that an answer takes."""
    prompt, _ = tokens_of(body)
    slow = behaviour.slow_s if behaviour.slow_over is not None and prompt > behaviour.slow_over else 0.0
    return slow + behaviour.token_s * math.ceil(len(text) / 4)


def shown(body: Mapping[str, Any]) -> str:
    """The schema of a request, as a key of its first use."""
    return json.dumps((body.get("response_format") or {}).get("json_schema"), sort_keys=True)
