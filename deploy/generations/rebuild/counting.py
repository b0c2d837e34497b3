"""Models that count the calls instead of making them; the offline implementations decide."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.model_ports import Embedder, LanguageModel, Prompt, Vectors
from eunoe.workers.models.questions.asking import is_correcting
from eunoe.workers.models.questions.metering import stage_of
from eunoe.workers.models.questions.recording import Answers, Recorded, RecordedModel
from eunoe.workers.text.tokens import count_tokens

AnswerT = TypeVar("AnswerT", bound=Value)

GUESSED_TOKENS: Final = 120
"""Assumed length of an answer to a prompt without any recorded answer."""


@dataclass(slots=True)
class ModelCallCounts:
    """Counts of the questions that a model would be asked."""

    stages: Sequence[str] | None = None
    """Stages whose questions are counted; `None` means all."""
    calls: int = 0
    prompt_tokens: int = 0
    recorded: int = 0
    """Questions answered by recorded answers."""
    by_prompt: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Name of the prompt → calls without a recorded answer."""
    known_tokens: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Name of the prompt → lengths of its recorded answers, in tokens."""
    answered_tokens: int = 0
    """Tokens of the recorded answers of repeated calls: a new answer is about as long."""

    def includes(self, prompt: Prompt) -> bool:
        """Whether the question is counted."""
        return self.stages is None or stage_of(prompt.name) in self.stages

    def call(self, prompt: Prompt) -> None:
        """Count one question that would be asked."""
        self.calls += 1
        self.prompt_tokens += count_tokens(prompt.system + "\n" + prompt.user)

    @property
    def completion_tokens(self) -> float:
        """Completion tokens of all calls: as recorded, else the mean of the same prompt, else `GUESSED_TOKENS`."""
        return self.answered_tokens + sum(calls * self._mean(name) for name, calls in self.by_prompt.items())

    @property
    def guessed(self) -> list[str]:
        """Names of the prompts without any recorded answer, sorted."""
        return sorted(name for name in self.by_prompt if not self.known_tokens.get(name))

    def _mean(self, name: str) -> float:
        known = self.known_tokens.get(name)
        return sum(known) / len(known) if known else GUESSED_TOKENS


class _Unasked:
    """A language model that counts its calls and answers none."""

    def __init__(self, name: str, counts: ModelCallCounts) -> None:
        self._name = name
        self._counts = counts

    @property
    def name(self) -> str:
        """The name of the model that would be asked, under which answers are recorded."""
        return self._name

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """Count the question and raise `AnswerInvalid`; a correcting question is not counted."""
        del form, urgent
        if not is_correcting(prompt) and self._counts.includes(prompt):
            self._counts.call(prompt)
            self._counts.by_prompt[prompt.name] += 1
        raise AnswerInvalid("no model was called")


class CountingModel(RecordedModel):
    """Uses recorded answers, counts the questions without one, records nothing.

    With ``ask_again`` recorded answers count as calls too, but still decide, as an estimate of the new answers.
    ``counts`` are shared with ``others``, the models of stages with settings of their own.
    """

    def __init__(  # noqa: PLR0913 - those of a recorded model, and what is counted
        self,
        name: str,
        answers: Answers,
        parameters: str,
        *,
        ask_again: bool,
        asks_refused: bool = False,
        counts: ModelCallCounts | None = None,
        others: Mapping[str, LanguageModel] | None = None,
    ) -> None:
        self.counts = counts or ModelCallCounts()
        super().__init__(_Unasked(name, self.counts), answers, parameters, asks_refused=asks_refused, stages=others)
        self._ask_again = ask_again
        self._met: set[str] = set()
        """Hashes of the counted questions; a repeated one would have a recorded answer by then."""

    async def recall(self, prompt: Prompt, form: type[AnswerT]) -> Recorded[AnswerT] | None:
        """The recorded answer, counted once; for a counted question without one, a refusal: it is decided offline."""
        kept, question = await super().recall(prompt, form), self._hash(prompt, form)
        if question in self._met:
            return kept or Recorded(None, "no model was called")
        if kept is not None and self.counts.includes(prompt):
            self._met.add(question)
            self._count(prompt, kept.answer)
        return kept

    def _count(self, prompt: Prompt, answer: Value | None) -> None:
        length = 0 if answer is None else count_tokens(answer.model_dump_json())
        if answer is not None:
            self.counts.known_tokens[prompt.name].append(length)
        if self._ask_again:
            self.counts.call(prompt)
            self.counts.answered_tokens += length
        else:
            self.counts.recorded += 1

    async def record(self, prompt: Prompt, form: type[AnswerT], answer: AnswerT) -> None:
        """Record nothing."""

    async def record_refusal(self, prompt: Prompt, form: type[Value], fault: str) -> None:
        """Record nothing; remember that the question was counted."""
        self._met.add(self._hash(prompt, form))


class CountingEmbedder:
    """Counts the texts for an embedding endpoint; a local embedder gives the vectors."""

    def __init__(self, local: Embedder) -> None:
        self._local = local
        self.texts = 0

    @property
    def name(self) -> str:
        """The name of the local embedder."""
        return self._local.name

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        return self._local.dimensions

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of the local embedder."""
        self.texts += len(texts)
        return await self._local.embed(texts)
