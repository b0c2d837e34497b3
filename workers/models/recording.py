"""Records answers by the hash of their question, so that a replay with the same prompts makes no calls."""

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

from pydantic import ValidationError

from eunoe.schemas.base import Value
from eunoe.schemas.ports import LanguageModel, Prompt
from eunoe.workers.models.forms import strict_schema

AnswerT = TypeVar("AnswerT", bound=Value)

REFUSED: Final = "refused: "
"""Prefix of the record of a question without a valid answer; an answer is JSON and never begins so."""


class Answers(Protocol):
    """A store of answers. Both methods raise `Unavailable` while the store is."""

    async def get(self, key: str, /) -> str | None:
        """The answer recorded under a request's hash; `None` where there is none."""
        ...

    async def put(self, key: str, text: str, /) -> None:
        """Record an answer."""
        ...


A_co = TypeVar("A_co", bound=Value, covariant=True)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[A_co]):
    """The record of a question that was asked before."""

    answer: A_co | None
    """`None` means that no answer of the model passed its checks, and the offline implementation decided."""
    fault: str = ""
    """The fault of the last answer, where none passed."""


@lru_cache(maxsize=256)  # a question is looked up before it is asked, and recorded after
def request_hash(model: str, prompt: Prompt, form: type[Value], parameters: str = "") -> str:
    """The sha256 (hex) of everything that an answer depends on: model, messages, schema, parameters.

    The prompt's name is not part of it: the same words are the same question.
    """
    parts = (model, prompt.system, prompt.user, prompt.max_tokens)
    asked = ", ".join((*map(json.dumps, parts), _schema_text(form), json.dumps(parameters)))
    return hashlib.sha256(f"[{asked}]".encode()).hexdigest()


@lru_cache(maxsize=256)
def _schema_text(form: type[Value]) -> str:
    return json.dumps(strict_schema(form), sort_keys=True)


class RecordedModel:
    """A language model whose answers are recorded.

    `answer` records every answer that is of the form. `ask_checked` uses the other methods: it records only an answer
    that passed its check, or that none did.
    """

    def __init__(self, model: LanguageModel, answers: Answers, parameters: str = "") -> None:
        self._model = model
        self._answers = answers
        self._parameters = parameters
        self._found = 0

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    @property
    def model(self) -> LanguageModel:
        """The wrapped model, which records nothing."""
        return self._model

    @property
    def found(self) -> int:
        """The number of recorded answers found."""
        return self._found

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
        text = await self._answers.get(self._hash(prompt, form))
        if text is None:
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
        await self._answers.put(self._hash(prompt, form), answer.model_dump_json())

    async def record_refusal(self, prompt: Prompt, form: type[Value], fault: str) -> None:
        """Record that no answer passed, so that a replay leaves the decision to the offline implementation again."""
        await self._answers.put(self._hash(prompt, form), REFUSED + fault)

    def _hash(self, prompt: Prompt, form: type[Value]) -> str:
        return request_hash(self.name, prompt, form, self._parameters)
