"""Questions about stretches of a dialogue; one that is refused for its content is divided: less of it falls back."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.asking import (
    CheckedAnswer,
    CheckedQuestion,
    ask_uncounted,
    side_by_side,
    time_limit,
)
from eunoe.workers.models.questions.metering import ItemOutcome, count_items
from eunoe.workers.models.questions.time_budget import decision_time

PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT", bound=Value)

_MAX_REFUSED = 8
"""Refused parts of one decision, without a single answer, after which none is divided: the endpoint refuses all."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[PartT, AnswerT]):
    part: PartT
    answer: CheckedAnswer[AnswerT]
    halves: Sequence[PartT]
    """The parts to ask about instead; empty for a part that is decided."""


async def ask_parts(
    model: LanguageModel,
    parts: Sequence[PartT],
    question: Callable[[PartT], CheckedQuestion[AnswerT]],
    halves: Callable[[PartT], Sequence[PartT]],
) -> list[tuple[PartT, AnswerT | None]]:
    """Ask about all parts side by side; returns each with its answer, in order.

    In place of a part that is refused for its content stand its ``halves``, each with a question of its own; a part
    without halves keeps none. `None` is for the offline implementation to decide. Every question is recorded, so a
    replay divides the same parts. Raises `Unavailable`.
    """

    async def ask(some: Iterable[PartT], usual: ItemOutcome) -> list[_Asked[PartT, AnswerT]]:
        given = list(some)
        answers = await side_by_side(ask_uncounted(model, question(part)) for part in given)
        answers = [replace(one, outcome=usual) if one.outcome is ItemOutcome.MODEL else one for one in answers]
        return [
            _Asked(part, answer, halves(part) if answer.is_divisible else ())
            for part, answer in zip(given, answers, strict=True)
        ]

    refused = 0
    with decision_time(time_limit(model, urgent=False)):
        found = await ask(parts, ItemOutcome.MODEL)
        while divided := [one for one in found if one.halves]:
            refused += len(divided)
            if refused >= _MAX_REFUSED and not any(one.answer.answer is not None for one in found):
                break
            smaller = iter(await ask((half for one in divided for half in one.halves), ItemOutcome.SALVAGED))
            found = [one for old in found for one in ([next(smaller) for _ in old.halves] if old.halves else [old])]
    for one in found:
        count_items(model, question(one.part).prompt.name, one.answer.outcome)
    return [(one.part, one.answer.answer) for one in found]
