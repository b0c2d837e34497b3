"""Answers kept by the hash of their question, so that a replay with the same prompts costs nothing."""

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
"""Begins the record of a question that the offline twin had to decide; an answer, being JSON, never begins so."""


class Answers(Protocol):
    """Where answers are kept. Both methods raise `Unavailable` when the store is."""

    async def get(self, key: str, /) -> str | None:
        """The answer recorded under a request's hash; None where there is none."""
        ...

    async def put(self, key: str, text: str, /) -> None:
        """Record an answer."""
        ...


A_co = TypeVar("A_co", bound=Value, covariant=True)


@dataclass(frozen=True, slots=True)
class Recorded(Generic[A_co]):
    """What is known of a question that was asked before."""

    answer: A_co | None
    """None: no answer of the model passed its checks, and the offline twin decided."""
    fault: str = ""
    """What was wrong with the last answer, where none passed."""


@lru_cache(maxsize=256)  # a question is looked up before it is asked, and recorded after
def request_hash(model: str, prompt: Prompt, form: type[Value], parameters: str = "") -> str:
    """The sha256 (hex) of all that an answer depends on: model, messages, schema, parameters.

    The prompt's name is not part of it: the same words are the same question.
    """
    parts = (model, prompt.system, prompt.user, prompt.max_tokens)
    asked = ", ".join((*map(json.dumps, parts), _schema_text(form), json.dumps(parameters)))
    return hashlib.sha256(f"[{asked}]".encode()).hexdigest()


@lru_cache(maxsize=256)
def _schema_text(form: type[Value]) -> str:
    return json.dumps(strict_schema(form), sort_keys=True)


class RecordedModel:
    """A language model whose answers are kept.

    Asked directly, it keeps every answer that is of the form. `ask_checked` uses the parts apart, so that only an
    answer that passed its check is ever kept, or else that none did.
    """

    def __init__(self, model: LanguageModel, answers: Answers, parameters: str = "") -> None:
        self._model = model
        self._answers = answers
        self._parameters = parameters
        self._found = 0

    @property
    def name(self) -> str:
        """The name of the model behind."""
        return self._model.name

    @property
    def model(self) -> LanguageModel:
        """The model behind, which remembers nothing."""
        return self._model

    @property
    def found(self) -> int:
        """How many recorded answers were found."""
        return self._found

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """The recorded answer, else the model's, which is then recorded; raises what the model raises."""
        kept = await self.recall(prompt, form)
        if kept is not None and kept.answer is not None:
            return kept.answer
        answer = await self._model.answer(prompt, form, urgent=urgent)
        await self.record(prompt, form, answer)
        return answer

    async def recall(self, prompt: Prompt, form: type[AnswerT]) -> Recorded[AnswerT] | None:
        """What is recorded of a question; None where nothing is, or nothing that is of the form."""
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
        """Keep an answer, in the place of what was kept before."""
        await self._answers.put(self._hash(prompt, form), answer.model_dump_json())

    async def record_refusal(self, prompt: Prompt, form: type[Value], fault: str) -> None:
        """Keep that no answer passed: asked again the question gets the same decision, the offline twin's."""
        await self._answers.put(self._hash(prompt, form), REFUSED + fault)

    def _hash(self, prompt: Prompt, form: type[Value]) -> str:
        return request_hash(self.name, prompt, form, self._parameters)
