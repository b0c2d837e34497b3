"""The parts of the protocol that an endpoint supports, learned from its refusals."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from eunoe.schemas.base import Value
from eunoe.schemas.ports import Prompt
from eunoe.workers.models.forms import strict_schema

_BOUND_WORDS = ("maxlength", "minlength", "maxitems", "minitems", "pattern", "minimum", "maximum", "multipleof")
_FORM_WORDS = ("response_format", "json_schema", "guided", "structured output", "grammar")


class Formatting(StrEnum):
    """The way to request an answer's form."""

    BOUNDED = "bounded"
    """json_schema with lengths and ranges."""
    PLAIN = "plain"
    """json_schema without lengths and ranges."""
    TEXT = "text"
    """json_object, with the schema in the system text."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a request; `None` leaves a parameter out."""

    temperature: float | None = 0.0
    seed: int | None = None
    thinking_tokens: int = 0
    """Tokens added to every prompt's bound, for a reasoning model's thoughts before its answer."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The request fields to send; `adapt` changes it after a refusal."""

    formatting: Formatting = Formatting.BOUNDED
    length_field: str = "max_tokens"
    temperature: bool = True
    seed: bool = True


def adapt(dialect: Dialect, refusal: str) -> Dialect | None:
    """The dialect to try after a 400 whose text is ``refusal``; `None` where the text names nothing to change."""
    said = refusal.lower()
    if "max_completion_tokens" in said and dialect.length_field == "max_tokens":
        return replace(dialect, length_field="max_completion_tokens")
    if "temperature" in said and dialect.temperature:
        return replace(dialect, temperature=False)
    if "seed" in said and dialect.seed:
        return replace(dialect, seed=False)
    if dialect.formatting is Formatting.BOUNDED and any(word in said for word in _BOUND_WORDS):
        return replace(dialect, formatting=Formatting.PLAIN)
    if dialect.formatting is not Formatting.TEXT and any(word in said for word in _FORM_WORDS):
        return replace(dialect, formatting=Formatting.TEXT)
    return None


def request_body(prompt: Prompt, form: type[Value], dialect: Dialect, sampling: Sampling) -> dict[str, Any]:
    """The fields of a chat completion request, without the model's name."""
    body: dict[str, Any] = {
        "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
        dialect.length_field: prompt.max_tokens + sampling.thinking_tokens,
        "response_format": _response_format(form, dialect.formatting),
    }
    if dialect.formatting is Formatting.TEXT:
        body["messages"][0]["content"] = f"{prompt.system}\n\n{_in_words(form)}"
    if dialect.temperature and sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if dialect.seed and sampling.seed is not None:
        body["seed"] = sampling.seed
    return body


def _response_format(form: type[Value], formatting: Formatting) -> dict[str, Any]:
    if formatting is Formatting.TEXT:
        return {"type": "json_object"}
    schema = strict_schema(form, bounded=formatting is Formatting.BOUNDED)
    return {"type": "json_schema", "json_schema": {"name": form.__name__, "strict": True, "schema": schema}}


def _in_words(form: type[Value]) -> str:
    schema = json.dumps(strict_schema(form), ensure_ascii=False)
    return f"Answer with one JSON object of this JSON Schema and with nothing else:\n{schema}"
