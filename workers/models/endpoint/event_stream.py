"""Reads an answer that came as an event stream although none was asked for, as some proxies send every answer."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

_DATA: Final = b"data:"
_COMMENT: Final = b":"
_DONE: Final = b"[DONE]"
_TEXTS: Final = ("content", "reasoning_content", "reasoning", "refusal")


def is_event_stream(content: bytes) -> bool:
    """Whether a response begins as server-sent events do."""
    return content.lstrip().startswith((_DATA, _COMMENT, b"event:", b"id:"))


def joined_events(content: bytes) -> dict[str, Any]:
    """The chat completion that the chunks of a stream make, with the message of its first choice.

    One that ends without a reason was broken off: that is told as an error. Raises ``ValueError`` for chunks that are
    no JSON.
    """
    joined: dict[str, Any] = {}
    message: dict[str, Any] = {}
    arguments, finish = "", None
    for chunk in _chunks(content):
        joined |= {name: chunk[name] for name in ("usage", "error", "model") if chunk.get(name)}
        choice = _first(chunk.get("choices"))
        finish = choice.get("finish_reason") or finish
        part = choice.get("delta") or choice.get("message")
        said = part if isinstance(part, dict) else {}
        message |= {name: message.get(name, "") + said[name] for name in _TEXTS if isinstance(said.get(name), str)}
        arguments += _arguments(said.get("tool_calls"))
    if finish is None:
        return {"error": {"message": "the answer was broken off"}, **joined}
    if arguments:
        message["tool_calls"] = [{"function": {"arguments": arguments}}]
    return {**joined, "choices": [{"message": message, "finish_reason": finish}]}


def _chunks(content: bytes) -> Iterator[Mapping[str, Any]]:
    """The documents of the events, in order."""
    for line in content.splitlines():
        data = line[len(_DATA) :].strip() if line.startswith(_DATA) else b""
        if data and data != _DONE:
            chunk = orjson.loads(data)
            yield chunk if isinstance(chunk, dict) else {}


def _first(choices: object) -> Mapping[str, Any]:
    """The first choice; empty where a chunk has none, as the one with the usage."""
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _arguments(calls: object) -> str:
    """The next characters of the arguments of the first call of a tool."""
    function = _first(calls).get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    return arguments if isinstance(arguments, str) else ""
