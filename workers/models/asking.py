"""Checked questions to a model, and delimiters that mark users' words as data."""

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
"""Delimiters around users' words."""

CORRECTED = "+corrected"
"""Suffix of the name of a prompt that asks a second time."""

REFUSED_NOTE = "Your answer to the above was refused:"
"""First line of the text that such a prompt adds."""

_MARKS = re.compile(r"[<＜﹤]{3,}|[>＞﹥]{3,}")  # angle brackets of any width: whatever could pass for a mark
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_MAX_FAULT_CHARS = 500


@dataclass(frozen=True, slots=True)
class CheckedAnswer(Generic[A_co]):
    """The outcome of a question that was checked."""

    answer: A_co | None
    """`None` means that no answer passed its checks: the offline implementation decides."""
    asked: int = 0
    """Calls made: 0 with a recorded answer, 2 where the first answer was refused."""
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
    """Ask and check; where the answer is at fault, ask exactly once more with the fault named.

    ``check`` returns the fault of an answer, or `None`. A `RecordedModel` records an answer that passed under the
    question as first asked, and serves it without a call while it still passes. It also records that no answer
    passed, so that a replay comes to the same decision. Raises `Unavailable` while the endpoint is.
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
    """The same question with the fault of the first answer."""
    message = " ".join(fault.split())[:_MAX_FAULT_CHARS]
    note = f"{REFUSED_NOTE}\n{delimited(message)}\nAnswer again, without this fault."
    return prompt.model_copy(update={"name": prompt.name + CORRECTED, "user": f"{prompt.user}\n\n{note}"})


def is_correcting(prompt: Prompt) -> bool:
    """Whether the prompt asks a question a second time."""
    return prompt.name.endswith(CORRECTED)


def delimited(text: str) -> str:
    """``text`` between marks that cannot occur in it, so that no user can end the data and begin to instruct."""
    return f"{OPENING}\n{_MARKS.sub(_spread, _INVISIBLE.sub('', text))}\n{CLOSING}"


def _spread(mark: re.Match[str]) -> str:
    """The brackets of a mark with spaces, never three together."""
    return re.sub(r"..(?!$)", r"\g<0> ", mark.group())


def numbered(lines: Sequence[Line], first: int = 0) -> str:
    """One row per line, ``[7] Ann (2026-03-01): …``, numbered from ``first``.

    White space is folded, so that no text can pass for a row.
    """
    return "\n".join(
        f"[{number}] {line.speaker} ({line.at:%Y-%m-%d}): {' '.join(line.text.split())}"
        for number, line in enumerate(lines, first)
    )
