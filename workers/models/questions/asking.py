"""Checked questions to a model, and delimiters that mark users' words as data."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.events import Line
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.cut_answers import is_endless, read_endless
from eunoe.workers.models.questions.metering import ItemOutcome, count_items
from eunoe.workers.models.questions.reading import partly_read
from eunoe.workers.models.questions.recording import CORRECTED, RecordedModel
from eunoe.workers.models.questions.time_budget import decision_time
from eunoe.workers.text.days import with_days
from eunoe.workers.text.invisible import without_invisible
from eunoe.workers.text.printed_names import printed_name

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=Value)
A_co = TypeVar("A_co", bound=Value, covariant=True)

OPENING, CLOSING = "<<<data", "data>>>"
"""Delimiters around users' words."""

REFUSED_NOTE = "Your answer to the above was refused:"
"""First line of the text that such a prompt adds."""

_LEFT, _RIGHT = "<＜﹤‹«˂ᐸ\u2329\u3008《⟨⟪❬❮❰︿︽≪⪡⋘⫷", ">＞﹥›»˃ᐳ\u232a\u3009》⟩⟫❭❯❱﹀︾≫⪢⋙⫸"
"""Angle brackets, and what looks like them."""
_BRACKETS = re.compile(f"[{_LEFT}]+|[{_RIGHT}]+")
_TRIPLE = str.maketrans({"⋘": "≪<", "⫷": "⪡<", "⋙": "≫>", "⫸": "⪢>"})
_DOUBLE = "≪⪡≫⪢"
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
    outcome: ItemOutcome = ItemOutcome.MODEL

    @property
    def is_divisible(self) -> bool:
        """Whether a part of the question may be answered: no answer came, because of its content or its length."""
        return self.answer is None and (self.fault or "").startswith(_DIVISIBLE)


_DIVISIBLE: Final = tuple(f"{kind}: " for kind in (AnswerFault.REFUSED, AnswerFault.TOO_LARGE, AnswerFault.CUT))

Check = Callable[[AnswerT], str | None]
Smaller = Callable[[LanguageModel], Awaitable[AnswerT | None]]
"""Asks the same with smaller questions, and joins their answers; `None` where one of them has none."""
Repair = Callable[[AnswerT], AnswerT | None]
"""The good part of an answer that failed its check; `None` where nothing of it is of use."""


@dataclass(frozen=True, slots=True)
class CheckedQuestion(Generic[AnswerT]):
    """A question, its form, and the ways to come to a valid answer."""

    prompt: Prompt
    form: type[AnswerT]
    check: Check[AnswerT]
    """The fault of an answer, or `None`."""
    smaller: Smaller[AnswerT] | None = None
    """For a question that is too large or too slow."""
    repair: Repair[AnswerT] | None = None
    urgent: bool = False


async def ask_checked(
    model: LanguageModel, prompt: Prompt, form: type[AnswerT], check: Check[AnswerT]
) -> CheckedAnswer[AnswerT]:
    """`ask_question` for a question that cannot be made smaller."""
    return await ask_question(model, CheckedQuestion(prompt, form, check))


async def ask_question(model: LanguageModel, question: CheckedQuestion[AnswerT]) -> CheckedAnswer[AnswerT]:
    """Ask and check; where the answer is at fault, ask exactly once more with the fault named.

    A `RecordedModel` records an answer that passed under the question as first asked, and serves it without a call
    while it still passes. It also records that no answer passed, so that a replay comes to the same decision. The time
    in flight is bounded by the model's settings; behind it the answer is `None`. Raises `Unavailable` while the
    endpoint is.
    """
    asked = await ask_uncounted(model, question)
    count_items(model, question.prompt.name, asked.outcome)
    return asked


async def ask_uncounted(model: LanguageModel, question: CheckedQuestion[AnswerT]) -> CheckedAnswer[AnswerT]:
    """`ask_question` without a count of its outcome: the caller counts it. Raises `Unavailable`."""
    with decision_time(time_limit(model, urgent=question.urgent)):
        asked = await _recalled(model, question)
        if asked is None:
            asked = await ask_unrecorded(plain_model(model), question)
            await _record(model, question, asked)
    return asked


async def _recalled(model: LanguageModel, question: CheckedQuestion[AnswerT]) -> CheckedAnswer[AnswerT] | None:
    """The recorded outcome of a question; `None` where there is none, or none that passes its check."""
    kept = await model.recall(question.prompt, question.form) if isinstance(model, RecordedModel) else None
    if kept is None:
        return None
    if kept.answer is None:
        return CheckedAnswer(None, 0, kept.fault, ItemOutcome.OFFLINE)
    return CheckedAnswer(kept.answer) if question.check(kept.answer) is None else None


async def _record(model: LanguageModel, question: CheckedQuestion[AnswerT], asked: CheckedAnswer[AnswerT]) -> None:
    if not isinstance(model, RecordedModel):
        return
    if asked.answer is not None:
        await model.record(question.prompt, question.form, asked.answer)
    else:
        await model.record_refusal(question.prompt, question.form, asked.fault or "")


async def ask_unrecorded(model: LanguageModel, question: CheckedQuestion[AnswerT]) -> CheckedAnswer[AnswerT]:
    """Ask and check without a record: part of a larger question, which is recorded. Raises `Unavailable`."""
    if question.smaller is not None and not await fits(model, question.prompt):
        return await _smaller(model, question, 0, f"{AnswerFault.TOO_LARGE}: it is longer than the model takes")
    first = await _ask_once(model, question, question.prompt)
    if first.fault is None:
        return CheckedAnswer(first.answer, 1)
    if first.kind.asks_for_less and question.smaller is not None and not first.endless:
        return await _smaller(model, question, 1, f"{first.kind}: {first.fault}")
    if not (first.kind.correctable or first.kind in (AnswerFault.CUT, AnswerFault.SLOW)):
        return CheckedAnswer(None, 1, f"{first.kind}: {first.fault}", ItemOutcome.OFFLINE)
    again = question.prompt if first.kind is AnswerFault.SLOW else corrected(question.prompt, first.fault)
    second = await _ask_once(model, question, again)
    if second.fault is None:
        return CheckedAnswer(second.answer, 2, first.fault, ItemOutcome.CORRECTED)
    for attempt in (second, first):
        if attempt.repaired is not None:
            return CheckedAnswer(attempt.repaired, 2, second.fault, ItemOutcome.SALVAGED)
    return CheckedAnswer(None, 2, f"{second.kind}: {second.fault}", ItemOutcome.OFFLINE)


async def _smaller(
    model: LanguageModel, question: CheckedQuestion[AnswerT], asked: int, fault: str
) -> CheckedAnswer[AnswerT]:
    answer = None if question.smaller is None else await question.smaller(model)
    if answer is None:
        return CheckedAnswer(None, asked, fault, ItemOutcome.OFFLINE)
    return CheckedAnswer(answer, asked, fault, ItemOutcome.SALVAGED)


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[A_co]):
    answer: A_co | None
    fault: str | None = None
    kind: AnswerFault = AnswerFault.UNREADABLE
    repaired: A_co | None = None
    endless: bool = False
    """Whether an item had no end: that of a smaller question would have none, either."""


async def _ask_once(model: LanguageModel, question: CheckedQuestion[AnswerT], prompt: Prompt) -> _Attempt[AnswerT]:
    part: AnswerT | None = None
    try:
        answer = await model.answer(prompt, question.form, urgent=question.urgent)
    except AnswerInvalid as error:
        if error.fault is AnswerFault.UNREADABLE:
            part = partly_read(error.partial, question.form)
        elif error.fault is AnswerFault.CUT and (part := read_endless(error.partial, question.form)) is not None:
            # a smaller question would end so, too
            error = AnswerInvalid("the answer said the same again until it was cut off; give each item once")
        repaired, endless = None if part is None else _good_part(question, part), is_endless(error)
        return _Attempt(None, str(error) or "the answer was not of the form", error.fault, repaired, endless)
    fault = question.check(answer)
    if fault is None:
        return _Attempt(answer)
    return _Attempt(None, fault, AnswerFault.UNREADABLE, _good_part(question, answer))


def _good_part(question: CheckedQuestion[AnswerT], answer: AnswerT) -> AnswerT | None:
    """The answer where it passes its check, else its good part; `None` where nothing of it is of use."""
    if question.check(answer) is None:
        return answer
    return None if question.repair is None else question.repair(answer)


# ---- what the model behind a port allows


def plain_model(model: LanguageModel) -> LanguageModel:
    """The model itself, which records nothing."""
    return model.model if isinstance(model, RecordedModel) else model


@runtime_checkable
class LimitedModel(Protocol):
    """A model with known limits of size and time."""

    async def fits(self, prompt: Prompt) -> bool:
        """Whether prompt and answer are within what is known of the model's limits."""
        ...

    def limit_s(self, *, urgent: bool) -> float | None:
        """Seconds in flight that a decision may take; `None` means no limit."""
        ...


async def fits(model: LanguageModel, prompt: Prompt) -> bool:
    """Whether the question is within what is known of the model's limits."""
    return not isinstance(model, LimitedModel) or await model.fits(prompt)


def time_limit(model: LanguageModel, *, urgent: bool) -> float | None:
    """Seconds in flight that a decision may take; `None` means no limit."""
    plain = plain_model(model)
    return plain.limit_s(urgent=urgent) if isinstance(plain, LimitedModel) else None


async def side_by_side(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of calls made at the same time, in their order; where one raises, the others are cancelled."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


# ---- prompts


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
    return f"{OPENING}\n{without_marks(text)}\n{CLOSING}"


def without_marks(text: str) -> str:
    """The text with whatever could pass for a mark taken apart, and `without_invisible`.

    A mark begins or ends with three angle brackets. Of any width, of whatever brackets look like them, and of signs
    that hold two or three of them, never three stand together.
    """
    if text.isascii() and "<<<" not in text and ">>>" not in text and all(map(str.isprintable, text.split("\n"))):
        return text
    return _BRACKETS.sub(_spread, without_invisible(text))


def _spread(found: re.Match[str]) -> str:
    """The brackets with a space behind every two."""
    spread: list[str] = []
    together = 0
    for bracket in found.group().translate(_TRIPLE):
        wide = 2 if bracket in _DOUBLE else 1
        if together + wide > 2:
            spread.append(" ")
            together = 0
        spread.append(bracket)
        together += wide
    return "".join(spread)


_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def write_day(at: datetime) -> str:
    """The day of a time with its weekday, in any locale: ``Sun 2026-03-01``."""
    return f"{_WEEKDAYS[at.weekday()]} {at.date().isoformat()}"


def numbered(lines: Sequence[Line], first: int = 0) -> str:
    """One row per line, ``[7] Ann (Sun 2026-03-01): …``, numbered from ``first``, with the days of relative words.

    White space is folded, so that no text can pass for a row; nor can a name.
    """
    return "\n".join(
        f"[{number}] {printed_name(line.speaker)} ({write_day(line.at)}): {_dated(line)}"
        for number, line in enumerate(lines, first)
    )


def _dated(line: Line) -> str:
    """The text of a line on one row; a model counts days badly, so that they stand behind the words that mean them."""
    return with_days(" ".join(line.text.split()), line.at.date(), "[]")
