"""Models that are not asked: they count what would be, and let the offline twins decide."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.ports import Embedder, Prompt, Vectors
from eunoe.workers.models.asking import is_correcting
from eunoe.workers.models.recording import Answers, Recorded, RecordedModel
from eunoe.workers.text.tokens import count_tokens

AnswerT = TypeVar("AnswerT", bound=Value)

_OTHER_NAMES: Final = {"question": "blend"}
"""Prompts that are not named like their stage."""

GUESSED_TOKENS: Final = 120
"""Of an answer to a prompt of which no recorded answer was met."""


@dataclass(slots=True)
class ModelCallCounts:
    """What a model would be asked."""

    stages: Sequence[str] | None = None
    """Whose questions are counted; None: all."""
    calls: int = 0
    prompt_tokens: int = 0
    recorded: int = 0
    """Questions that recorded answers serve."""
    by_prompt: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The prompt's name → calls whose answer nobody knows."""
    known_tokens: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The prompt's name → the lengths of the recorded answers that were met."""
    answered_tokens: int = 0
    """Of calls whose answer is recorded: asked again it is about as long."""

    def concern(self, prompt: Prompt) -> bool:
        """True: the question is one of those that are counted."""
        name = prompt.name.partition("/")[0]
        return self.stages is None or _OTHER_NAMES.get(name, name) in self.stages

    def call(self, prompt: Prompt) -> None:
        """One question that would be asked."""
        self.calls += 1
        self.prompt_tokens += count_tokens(prompt.system + "\n" + prompt.user)

    @property
    def completion_tokens(self) -> float:
        """Of all calls: as recorded, else the mean of the recorded ones of the same prompt, else a guess."""
        return self.answered_tokens + sum(calls * self._mean(name) for name, calls in self.by_prompt.items())

    @property
    def guessed(self) -> list[str]:
        """The prompts of which no recorded answer was met."""
        return sorted(name for name in self.by_prompt if not self.known_tokens.get(name))

    def _mean(self, name: str) -> float:
        known = self.known_tokens.get(name)
        return sum(known) / len(known) if known else GUESSED_TOKENS


class _Unasked:
    """A language model that is counted and gives no answer."""

    def __init__(self, name: str, counts: ModelCallCounts) -> None:
        self._name = name
        self._counts = counts

    @property
    def name(self) -> str:
        """That of the model which would be asked: answers are recorded under it."""
        return self._name

    async def answer(self, prompt: Prompt, form: type[AnswerT], *, urgent: bool = False) -> AnswerT:
        """Raises `AnswerInvalid`, always; a correcting question would not be needed and is not counted."""
        del form, urgent
        if not is_correcting(prompt) and self._counts.concern(prompt):
            self._counts.call(prompt)
            self._counts.by_prompt[prompt.name] += 1
        raise AnswerInvalid("nobody was asked")


class CountingModel(RecordedModel):
    """Recalls recorded answers, counts the questions that have none, records nothing.

    ``ask_again``: recorded answers are counted as calls too, and still decide: they are what is known of the answers
    that would come. ``stages``: only their questions are counted, the others' work is copied; None: all.
    """

    def __init__(
        self, name: str, answers: Answers, parameters: str, *, ask_again: bool, stages: Sequence[str] | None = None
    ) -> None:
        self.counts = ModelCallCounts(stages)
        super().__init__(_Unasked(name, self.counts), answers, parameters)
        self._ask_again = ask_again
        self._met: set[str] = set()
        """Questions that were counted; one that comes again is answered by then."""

    async def recall(self, prompt: Prompt, form: type[AnswerT]) -> Recorded[AnswerT] | None:
        """What is recorded of a question, counted once; of one that would be asked, that the offline twin decides."""
        kept, question = await super().recall(prompt, form), self._hash(prompt, form)
        if question in self._met:
            return kept or Recorded(None, "nobody was asked")
        if kept is not None and self.counts.concern(prompt):
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
        """Nothing is recorded."""

    async def record_refusal(self, prompt: Prompt, form: type[Value], fault: str) -> None:
        """Nothing is recorded; it was counted."""
        self._met.add(self._hash(prompt, form))


class CountingEmbedder:
    """Counts the texts that an endpoint would be sent; a local embedder stands in for it."""

    def __init__(self, stand_in: Embedder) -> None:
        self._stand_in = stand_in
        self.texts = 0

    @property
    def name(self) -> str:
        """The stand-in's name."""
        return self._stand_in.name

    @property
    def dimensions(self) -> int:
        """The length of the stand-in's vectors."""
        return self._stand_in.dimensions

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The stand-in's vectors."""
        self.texts += len(texts)
        return await self._stand_in.embed(texts)
