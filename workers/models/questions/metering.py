"""Counts and costs of the questions to a model, and of the items that they decided."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.buckets import Buckets


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def known(self) -> bool:
        """Whether a price is set."""
        return bool(self.prompt or self.completion)


@dataclass(slots=True)
class Usage:
    """Counts since the process started."""

    calls: int = 0
    """Questions asked, without corrections and retries."""
    corrections: int = 0
    """Questions asked again with the fault of the first answer named."""
    retries: int = 0
    """Requests sent again because the endpoint did not answer."""
    invalid: int = 0
    """Answers that were not of the form."""
    prompt_tokens: int = 0
    """The endpoint's count, or our own estimate where it returns none."""
    completion_tokens: int = 0

    def cost(self, prices: Prices) -> float:
        """The cost in dollars, by the prices that are set."""
        return (self.prompt_tokens * prices.prompt + self.completion_tokens * prices.completion) / 1e6


class ItemOutcome(StrEnum):
    """The way in which an item (a pair, a node, a window, a reply) was decided."""

    MODEL = "model"
    """By the model's first answer, or by a recorded one."""
    CORRECTED = "corrected"
    """By the model's answer after its fault was named."""
    SALVAGED = "salvaged"
    """By an answer of which other items were bad, or after the question was made smaller."""
    OFFLINE = "offline"
    """By the offline implementation, for want of a valid answer."""


class DecidedBy(StrEnum):
    """The maker of a decision."""

    MODEL = "model"
    """The language model, asked now or before, all items of it."""
    OFFLINE = "offline"
    """Rules and statistics: no model was to be asked."""
    FALLBACK = "fallback"
    """The model, but for items of which it gave no valid answer."""


@dataclass(slots=True)
class _Answers:
    by: DecidedBy = DecidedBy.OFFLINE

    def note(self, outcome: ItemOutcome) -> None:
        if outcome is ItemOutcome.OFFLINE:
            self.by = DecidedBy.FALLBACK
        elif self.by is DecidedBy.OFFLINE:
            self.by = DecidedBy.MODEL


_ANSWERS: ContextVar[_Answers | None] = ContextVar("eunoe_answers", default=None)


@contextmanager
def noting_answers() -> Iterator[_Answers]:
    """Note who makes the decision of the body, in its tasks too."""
    token = _ANSWERS.set(answers := _Answers())
    try:
        yield answers
    finally:
        _ANSWERS.reset(token)


ASKING_STAGES: Final = ("blend", "segment", "summarize", "update", "link", "tree", "respond")
"""The stages that ask a model."""

_STAGE_OF: Final = {"question": "blend", "refine": "respond", "reply": "respond", "reply-refined": "respond"}


def stage_of(prompt: str) -> str:
    """The stage that asks the prompt of this name: ``reply/1`` → ``respond``."""
    name = prompt.partition("/")[0]
    return _STAGE_OF.get(name, name)


CALL_S: Final = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120)
"""Bounds for the answers of a model, in seconds."""


class StageCalls:
    """Durations of the questions of each stage, until a complete answer or a fault, and their tokens."""

    def __init__(self) -> None:
        self.seconds = {stage: Buckets(CALL_S) for stage in ASKING_STAGES}
        self.tokens = Counter({(stage, kind): 0 for stage in ASKING_STAGES for kind in ("prompt", "completion")})

    def answered(self, stage: str, seconds: float) -> None:
        """Count a question, with its retries."""
        if stage in self.seconds:
            self.seconds[stage].add(seconds)

    def read(self, stage: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count the tokens of a request."""
        self.tokens[stage, "prompt"] += prompt_tokens
        self.tokens[stage, "completion"] += completion_tokens


class ItemCounts:
    """Items by stage and outcome, since the process started."""

    def __init__(self) -> None:
        self._counts = Counter({(stage, outcome): 0 for stage in ASKING_STAGES for outcome in ItemOutcome})

    def add(self, stage: str, outcome: ItemOutcome, items: int = 1) -> None:
        """Count items."""
        self._counts[stage, outcome] += items
        if (answers := _ANSWERS.get()) is not None:
            answers.note(outcome)

    def of(self, stage: str) -> dict[str, int]:
        """The counts of one stage by outcome."""
        return {outcome.value: self._counts[stage, outcome] for outcome in ItemOutcome}

    def document(self) -> dict[str, dict[str, int]]:
        """Stage → outcome → items; every stage that asks a model has an entry."""
        return {stage: self.of(stage) for stage in dict.fromkeys(stage for stage, _ in self._counts)}


def count_items(model: LanguageModel, prompt: str, outcome: ItemOutcome) -> None:
    """Count an item that a question of this name has decided."""
    counts = getattr(model, "items", None)
    if isinstance(counts, ItemCounts):
        counts.add(stage_of(prompt), outcome)
