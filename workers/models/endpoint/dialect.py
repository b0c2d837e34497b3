"""The parts of the protocol that an endpoint supports, learned from its refusals."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from eunoe.schemas.base import Value
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.endpoint.refusals import BOUND_WORDS, FORM_WORDS
from eunoe.workers.models.questions.answer_forms import form_name, spec_of
from eunoe.workers.models.questions.forms import strict_schema


class Formatting(StrEnum):
    """The way to request an answer's form."""

    BOUNDED = "bounded"
    """json_schema with lengths and ranges."""
    PLAIN = "plain"
    """json_schema without lengths and ranges."""
    TEXT = "text"
    """json_object, with the form in the prompt."""
    BARE = "bare"
    """No parameter, with the form in the prompt."""

    @property
    def simpler(self) -> "Formatting":
        """The next way, which asks less of the endpoint; the last one is followed by itself."""
        ways = list(Formatting)
        return ways[min(ways.index(self) + 1, len(ways) - 1)]


_SCHEMA: Final = (Formatting.BOUNDED, Formatting.PLAIN)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a request; `None` leaves a parameter out."""

    temperature: float | None = 0.0
    seed: int | None = None
    reasoning_effort: str | None = None
    thinking_tokens: int = 0
    """Tokens added to every prompt's bound, for a reasoning model's thoughts before its answer."""
    max_output: int | None = None
    """The most tokens of an answer; `None`: what the endpoint says."""
    context_window: int | None = None
    """The most tokens of prompt and answer; `None`: what the endpoint says."""
    language: str | None = None
    """The language of all texts that the model writes; `None`: that of the dialogue."""


class Dialect(Value):
    """The request fields to send."""

    formatting: Formatting = Formatting.BOUNDED
    length_field: str = "max_tokens"
    temperature: bool = True
    seed: bool = True
    reasoning_effort: bool = True


def dialects_after(dialect: Dialect, named: frozenset[str]) -> Iterator[Dialect]:
    """The dialects to try, in this order, after a refusal that names these parameters of ours.

    Where it names none of use, the form is asked for in simpler ways. They are tried on the refused request alone.
    """
    tried = False
    if (changed := _without(dialect, named)) != dialect:
        tried, dialect = True, changed
        yield dialect
    if not tried or named & FORM_WORDS:
        while (simpler := dialect.formatting.simpler) != dialect.formatting:
            dialect = dialect.model_copy(update={"formatting": simpler})
            yield dialect


def _without(dialect: Dialect, named: frozenset[str]) -> Dialect:
    """The dialect without the parameters that a refusal names."""
    update: dict[str, Any] = {name: False for name in ("temperature", "seed", "reasoning_effort") if name in named}
    if dialect.length_field in named:
        update["length_field"] = _OTHER_LENGTH[dialect.length_field]
    if named & BOUND_WORDS and dialect.formatting is Formatting.BOUNDED:
        update["formatting"] = Formatting.PLAIN
    elif named & FORM_WORDS:
        update["formatting"] = dialect.formatting.simpler
    return dialect.model_copy(update=update)


_OTHER_LENGTH: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


def request_body(
    prompt: Prompt, form: type[Value], dialect: Dialect, sampling: Sampling, max_tokens: int | None = None
) -> dict[str, Any]:
    """The fields of a chat completion request, without the model's name.

    ``max_tokens``: the bound of the answer; by default the prompt's with room for thoughts.
    """
    bound = prompt.max_tokens + sampling.thinking_tokens if max_tokens is None else max_tokens
    system = prompt.system
    if sampling.language is not None:
        system = f"{system}\nWrite all texts in this language, whatever the dialogue is in: {sampling.language}."
    body: dict[str, Any] = {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt.user}],
        dialect.length_field: bound,
    }
    if dialect.formatting in _SCHEMA:
        body["response_format"] = _json_schema(form, bounded=dialect.formatting is Formatting.BOUNDED)
    else:
        body["messages"][0]["content"] = f"{system}{_in_words(form)}"
        if dialect.formatting is Formatting.TEXT:
            body["response_format"] = {"type": "json_object"}
    if dialect.temperature and sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if dialect.seed and sampling.seed is not None:
        body["seed"] = sampling.seed
    if dialect.reasoning_effort and sampling.reasoning_effort is not None:
        body["reasoning_effort"] = sampling.reasoning_effort
    return body


def _json_schema(form: type[Value], *, bounded: bool) -> dict[str, Any]:
    schema = strict_schema(form, bounded=bounded)
    return {"type": "json_schema", "json_schema": {"name": form_name(form), "strict": True, "schema": schema}}


def _in_words(form: type[Value]) -> str:
    """The form in words; prompts of the fixed forms hold an example already."""
    if spec_of(form) is not None:
        return ""
    schema = json.dumps(strict_schema(form), ensure_ascii=False)
    return f"\n\nAnswer with one JSON object of this JSON Schema and with nothing else:\n{schema}"
