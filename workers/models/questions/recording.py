"""Records answers by the hash of their question, so that a replay with the same prompts makes no calls."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.answer_forms import spec_of
from eunoe.workers.models.questions.forms import strict_schema
from eunoe.workers.models.questions.metering import ItemCounts
from eunoe.workers.text.caches import cached_by_length

AnswerT = TypeVar("AnswerT", bound=Value)

REFUSED: Final = "refused: "
"""Prefix of the record of a question without a valid answer; an answer is JSON and never begins so. It is the outcome
of a time and an endpoint: a rebuild repeats it, and asks again where it is told to."""

CORRECTED: Final = "+corrected"
"""Suffix of the name of a prompt that asks a second time."""


class Answers(Protocol):
    """A store of answers. Both methods raise `Unavailable` while the store is.

    ``conversation``: the key of the conversation that asks; '' means none. A store may keep the answers of each apart.
    """

    async def get(self, key: str, conversation: str = "", /) -> str | None:
        """The answer recorded under a request's hash; `None` where there is none."""
        ...

    async def put(self, key: str, text: str, conversation: str = "", /) -> None:
        """Record an answer."""
        ...


_ASKING: ContextVar[str] = ContextVar("eunoe_asking", default="")


@contextmanager
def asking_for(conversation: str) -> Iterator[None]:
    """Record the answers to all questions of the body, and of its tasks, as those of a conversation."""
    token = _ASKING.set(conversation)
    try:
        yield
    finally:
        _ASKING.reset(token)


A_co = TypeVar("A_co", bound=Value, covariant=True)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[A_co]):
    """The record of a question that was asked before."""

    answer: A_co | None
    """`None` means that no answer of the model passed its checks, and the offline implementation decided."""
    fault: str = ""
    """The fault of the last answer, where none passed."""


def _chars_of(_model: str, prompt: Prompt, _form: type[Value], _parameters: str = "") -> int:
    return len(prompt.system) + len(prompt.user)


# a question is looked up before it is asked, and recorded after
@cached_by_length("questions", _chars_of, 4, (20_000, 64), (500_000, 2))
def request_hash(model: str, prompt: Prompt, form: type[Value], parameters: str = "") -> str:
    """The sha256 (hex) of everything that an answer depends on: model, messages, schema, parameters, versions.

    ``parameters``: those of the sampling. The pace (timeouts, calls in flight) is no part of it.
    """
    parts = (model, prompt.name.removesuffix(CORRECTED), prompt.system, prompt.user, prompt.max_tokens)
    asked = ", ".join((*map(json.dumps, parts), _schema_text(form), json.dumps(parameters)))
    return hashlib.sha256(f"[{asked}]".encode()).hexdigest()


@lru_cache(maxsize=64)
def _schema_text(form: type[Value]) -> str:
    spec = spec_of(form)
    tag = form.__name__ if spec is None else spec.tag
    return f"{tag} {json.dumps(strict_schema(form), sort_keys=True)}"


class RecordedModel:
    """A language model whose answers are recorded.

    `answer` records every answer that is of the form. `ask_checked` uses the other methods: it records only an answer
    that passed its check, or that none did. With ``asks_refused`` a recorded answer is used, and a record that there
    was none is not. ``stages``: the models of stages that have other settings.
    """

    def __init__(
        self,
        model: LanguageModel,
        answers: Answers,
        parameters: str = "",
        *,
        asks_refused: bool = False,
        stages: Mapping[str, LanguageModel] | None = None,
    ) -> None:
        self._model = model
        self._answers = answers
        self._parameters = parameters
        self._found = 0
        self._items = getattr(model, "items", None) or ItemCounts()
        self.asks_refused = asks_refused
        self._stages = stages or {}

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    @property
    def model(self) -> LanguageModel:
        """The wrapped model, which records nothing."""
        return self._model

    def for_stage(self, stage: str) -> LanguageModel:
        """The model of a stage: one with settings of its own, else this one."""
        return self._stages.get(stage, self)

    @property
    def all(self) -> tuple[LanguageModel, ...]:
        """The wrapped models: this one, and those of stages with settings of their own."""
        others = (one.model if isinstance(one, RecordedModel) else one for one in self._stages.values())
        return (self._model, *others)

    @property
    def found(self) -> int:
        """The number of recorded answers found."""
        return self._found

    @property
    def items(self) -> ItemCounts:
        """The items decided so far, by stage and outcome."""
        return self._items

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """The recorded answer, else the model's, which is then recorded; raises whatever the model raises."""
        kept = await self.recall(prompt, form)
        if kept is not None and kept.answer is not None:
            return kept.answer
        answer = await self._model.answer(prompt, form, urgent=urgent)
        await self.record(prompt, form, answer)
        return answer

    async def recall(self, prompt: Prompt, form: type[AnswerT]) -> Recorded[AnswerT] | None:
        """The record of a question; `None` where there is none, or none of that form."""
        text = await self._answers.get(self._hash(prompt, form), _ASKING.get())
        if not text or (self.asks_refused and text.startswith(REFUSED)):
            return None
        if text.startswith(REFUSED):
            self._found += 1
            return Recorded(None, text.removeprefix(REFUSED))
        try:
            kept = form.from_json(text)
        except ValidationError:
            return None
        self._found += 1
        return Recorded(kept)

    async def record(self, prompt: Prompt, form: type[AnswerT], answer: AnswerT) -> None:
        """Record an answer in place of an earlier record."""
        await self._answers.put(self._hash(prompt, form), answer.model_dump_json(), _ASKING.get())

    async def record_refusal(self, prompt: Prompt, form: type[Value], fault: str) -> None:
        """Record that no answer passed, so that a replay leaves the decision to the offline implementation again."""
        await self._answers.put(self._hash(prompt, form), REFUSED + fault, _ASKING.get())

    def _hash(self, prompt: Prompt, form: type[Value]) -> str:
        return request_hash(self.name, prompt, form, self._parameters)
