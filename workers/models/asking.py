"""Asking a model so that its answer can be believed, and showing it what people said as data."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerInvalid
from eunoe.schemas.events import Line
from eunoe.schemas.ports import LanguageModel, Prompt
from eunoe.workers.models.recording import RecordedModel

AnswerT = TypeVar("AnswerT", bound=Value)
A_co = TypeVar("A_co", bound=Value, covariant=True)

OPENING, CLOSING = "<<<data", "data>>>"
"""The marks around what people said."""

CORRECTED = "+corrected"
"""Ends the name of a prompt that asks again."""

REFUSED_NOTE = "Your answer to the above was refused:"
"""Begins what such a prompt adds."""

_MARKS = re.compile(r"[<＜﹤]{3,}|[>＞﹥]{3,}")  # angle brackets of any width: whatever could pass for a mark
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_MAX_FAULT_CHARS = 500


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[A_co]):
    """What came of a question."""

    answer: A_co | None
    """None: no answer passed its checks; the offline twin decides."""
    asked: int = 0
    """Calls made: 0 where a recorded answer served, 2 where the first answer was refused."""
    fault: str | None = None
    """The fault of the last answer that was refused."""


async def ask_checked(
    model: LanguageModel,
    prompt: Prompt,
    form: type[AnswerT],
    check: Callable[[AnswerT], str | None],
    *,
    urgent: bool = False,
) -> CheckedAnswer[AnswerT]:
    """Ask, check, and where the answer is at fault ask exactly once more with the fault named.

    ``check`` returns what is wrong with an answer, or None. Where ``model`` is a `RecordedModel`, an answer
    that passed is recorded under the question as first asked, and a recorded answer that still passes is
    served without a call; likewise that none passed, so that a replay decides what was decided. Raises
    `Unavailable` when the endpoint is.
    """
    kept = await model.recall(prompt, form) if isinstance(model, RecordedModel) else None
    if kept is not None and kept.answer is None:
        return CheckedAnswer(None, 0, kept.fault)
    if kept is not None and kept.answer is not None and check(kept.answer) is None:
        return CheckedAnswer(kept.answer)
    plain = model.model if isinstance(model, RecordedModel) else model
    answer, fault = await _ask_once(plain, prompt, form, check, urgent)
    asked = 1
    if fault is not None:
        answer, second = await _ask_once(plain, corrected(prompt, fault), form, check, urgent)
        asked, fault = 2, second or fault
    if isinstance(model, RecordedModel):
        if answer is not None:
            await model.record(prompt, form, answer)
        else:
            await model.record_refusal(prompt, form, fault or "")
    return CheckedAnswer(answer, asked, fault)


async def _ask_once(
    model: LanguageModel,
    prompt: Prompt,
    form: type[AnswerT],
    check: Callable[[AnswerT], str | None],
    urgent: bool,
) -> tuple[AnswerT | None, str | None]:
    try:
        answer = await model.answer(prompt, form, urgent=urgent)
    except AnswerInvalid as error:
        return None, str(error) or "the answer was not of the form"
    fault = check(answer)
    return (answer, None) if fault is None else (None, fault)


def corrected(prompt: Prompt, fault: str) -> Prompt:
    """The same question, told what was wrong with the first answer."""
    told = " ".join(fault.split())[:_MAX_FAULT_CHARS]
    note = f"{REFUSED_NOTE}\n{delimited(told)}\nAnswer again, without this fault."
    return prompt.model_copy(update={"name": prompt.name + CORRECTED, "user": f"{prompt.user}\n\n{note}"})


def is_correcting(prompt: Prompt) -> bool:
    """True: the prompt is the second asking of a question."""
    return prompt.name.endswith(CORRECTED)


def delimited(text: str) -> str:
    """``text`` between marks that cannot occur in it, so that no words of a user end the data and begin to instruct."""
    return f"{OPENING}\n{_MARKS.sub(_spread, _UNSEEN.sub('', text))}\n{CLOSING}"


def _spread(mark: re.Match[str]) -> str:
    """The brackets of a mark, never three together."""
    return re.sub(r"..(?!$)", r"\g<0> ", mark.group())


def numbered(lines: Sequence[Line], first: int = 0) -> str:
    """One row per line, ``[7] Ann (2026-03-01): …``; white space is folded, so that no text can pass for a row."""
    return "\n".join(
        f"[{number}] {line.speaker} ({line.at:%Y-%m-%d}): {' '.join(line.text.split())}"
        for number, line in enumerate(lines, first)
    )
