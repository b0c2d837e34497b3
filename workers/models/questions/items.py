"""Questions about numbered items: in batches side by side, with good items kept and bad ones asked once more alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.asking import corrected, fits, plain_model, side_by_side, time_limit
from eunoe.workers.models.questions.cut_answers import number_unfinished, unfinished
from eunoe.workers.models.questions.metering import ItemOutcome, count_items
from eunoe.workers.models.questions.numbering import FROM_0, RowT, counted_from_1
from eunoe.workers.models.questions.prompt_lines import prompt_tokens
from eunoe.workers.models.questions.reading import salvaged
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.models.questions.time_budget import decision_time

_MAX_NAMED = 8
"""Items whose faults a correcting prompt names."""
_MAX_FAILURES = 8
"""Questions of one batch without an answer, beyond one for each good row, after which no smaller ones are asked."""


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class ItemQuestion(Generic[ItemT, RowT]):
    """A question about numbered items; the form is one list of rows, each with the number ``n`` of its item."""

    form: type[Value]
    prompt: Callable[[Sequence[ItemT]], Prompt]
    """The question about these items, numbered from 1."""
    fault: Callable[[RowT, ItemT], str | None]
    """The fault of an item's row, or `None`."""
    clipped: Callable[[ItemT], ItemT] | None = None
    """The item with shorter texts, for one that is too large alone."""

    @property
    def field(self) -> str:
        """The name of the list."""
        return next(iter(self.form.model_fields))

    def rows(self, answer: Value) -> Sequence[RowT]:
        """The rows of an answer."""
        rows: Sequence[RowT] = getattr(answer, self.field)
        return rows


@dataclass(frozen=True, slots=True)
class ItemAnswers(Generic[RowT]):
    """One row per item in the order of the items; `None` is for the offline implementation to decide."""

    rows: tuple[RowT | None, ...]
    prompt: str
    """The name of the prompt."""

    @property
    def open(self) -> list[int]:
        """The places of the items without an answer, from 0."""
        return [place for place, row in enumerate(self.rows) if row is None]

    def provenance(self, made_by: Provenance, offline: Provenance) -> Provenance:
        """``made_by`` with the counts of these items; that of the offline implementation where it decided all."""
        count, fell_back = len(self.rows), len(self.open)
        all_fell_back = bool(count) and fell_back == count
        chosen = offline if all_fell_back else made_by
        update = {"prompt": self.prompt, "fallback": all_fell_back, "items": count, "fell_back": fell_back}
        return chosen.model_copy(update=update)


async def ask_items(
    model: LanguageModel,
    question: ItemQuestion[ItemT, RowT],
    batches: Sequence[Sequence[ItemT]],
) -> ItemAnswers[RowT]:
    """Ask about all items, the batches side by side; returns a row per item, in order.

    A batch that is too large, too slow or cut off is halved, and so is one that is refused for its content or stays
    unreadable, until the item at fault is alone; an item that is too large alone is clipped. Bad and missing items are
    asked once more, alone. A `RecordedModel` records each batch's good rows: a replay finds them, and
    leaves the same items open. The time in flight is bounded by the model's settings. Raises `Unavailable`.
    """
    if not batches:
        return ItemAnswers((), "")
    with decision_time(time_limit(model, urgent=False)):
        found = await side_by_side(_ask_batch(model, question, batch) for batch in batches)
    return ItemAnswers(tuple(row for rows in found for row in rows), question.prompt(batches[0][:1]).name)


async def _ask_batch(
    model: LanguageModel, question: ItemQuestion[ItemT, RowT], items: Sequence[ItemT]
) -> list[RowT | None]:
    asking = _Asking(plain_model(model), question)
    numbered = list(enumerate(items))
    prompt = question.prompt(items)
    kept = await model.recall(prompt, question.form) if isinstance(model, RecordedModel) else None
    if kept is not None and kept.answer is not None:
        asking.keep(numbered, question.rows(kept.answer), ItemOutcome.MODEL)
    left = [item for item in numbered if item[0] not in asking.found]
    if left and (kept is None or (isinstance(model, RecordedModel) and model.asks_refused)):
        await asking.ask(left)
        await _record(model, question, prompt, asking)
    for place in range(len(items)):
        count_items(model, prompt.name, asking.outcome(place))
    return [asking.row(place) for place in range(len(items))]


async def _record(
    model: LanguageModel, question: ItemQuestion[ItemT, RowT], prompt: Prompt, asking: "_Asking[ItemT, RowT]"
) -> None:
    """Record the good rows under their numbers in the batch; without any, the reason."""
    if not isinstance(model, RecordedModel):
        return
    rows = [{**row, "n": place + 1} for place, row in asking.documents()]
    if rows:
        await model.record(prompt, question.form, question.form.model_validate({question.field: rows}))
    else:
        await model.record_refusal(prompt, question.form, asking.why)


Numbered = Sequence[tuple[int, ItemT]]
"""Place in the batch, and the item."""


@dataclass(slots=True)
class _Asking(Generic[ItemT, RowT]):
    """The rows found so far for one batch."""

    model: LanguageModel
    question: ItemQuestion[ItemT, RowT]
    found: dict[int, tuple[RowT, ItemOutcome]] = field(default_factory=dict)
    why: str = ""
    """The last fault."""
    failures: int = 0
    """Questions without an answer that could be read."""

    def row(self, place: int) -> RowT | None:
        """The row of an item."""
        return self.found[place][0] if place in self.found else None

    def outcome(self, place: int) -> ItemOutcome:
        """The way an item was decided."""
        return self.found[place][1] if place in self.found else ItemOutcome.OFFLINE

    def documents(self) -> list[tuple[int, dict[str, Any]]]:
        """(place, row as a document) of the items with an answer."""
        return [(place, row.model_dump()) for place, (row, _) in sorted(self.found.items())]

    async def ask(
        self,
        items: Numbered[ItemT],
        *,
        note: str = "",
        salvaging: bool = False,
        slow_splits: int = 1,
        clip: bool = True,
    ) -> None:
        """Ask about these items. ``note``: the fault of an earlier answer, which this one corrects."""
        prompt = self.question.prompt([item for _, item in items])
        if len(items) > 1 and not await fits(self.model, prompt):
            await self._halves(items, note=note, slow_splits=slow_splits)
            return
        prompt = corrected(prompt, note) if note else prompt
        try:
            answer = await self.model.answer(prompt, self.question.form)
        except AnswerInvalid as error:
            self.why = f"{error.fault}: {error}"
            self.failures += 1
            left = self._kept_of_partial(items, error)
            if error.fault is AnswerFault.CUT and len(left) == len(items) and not self._may_fail_again:
                return
            endless = self._endless(items, left, error)
            if endless is not None:
                await self._apart(endless, left, error)
            else:
                await self._after_fault(left, error, note=note, slow_splits=slow_splits, clip=clip)
            return
        usual = ItemOutcome.CORRECTED if note else ItemOutcome.MODEL
        bad = self.keep(items, self.question.rows(answer), ItemOutcome.SALVAGED if salvaging else usual)
        if bad:
            self.why = _named(bad, {place: at for at, (place, _) in enumerate(items, 1)})
        if bad and not note:
            left = [item for item in items if item[0] in bad]
            await self.ask(left, note=_named(bad, {place: at for at, (place, _) in enumerate(left, 1)}))

    def keep(self, items: Numbered[ItemT], rows: Sequence[RowT], outcome: ItemOutcome) -> dict[int, str]:
        """Keep the good rows; returns place → fault of the others."""
        counted = counted_from_1(rows, len(items))
        if counted is None:
            return dict.fromkeys((place for place, _ in items), FROM_0)
        by_number: dict[int, list[RowT]] = {}
        for row in counted:
            by_number.setdefault(row.n, []).append(row)
        bad: dict[int, str] = {}
        good: dict[int, RowT] = {}
        for number, (place, item) in enumerate(items, 1):
            given = by_number.get(number, [])
            if not given:
                bad[place] = "it is not answered, or not in the form"
            elif any(row != given[0] for row in given):
                bad[place] = "it is answered more than once"
            elif (fault := self.question.fault(given[0], item)) is not None:
                bad[place] = fault
            else:
                good[place] = given[0]
        usual = ItemOutcome.SALVAGED if bad and outcome is ItemOutcome.MODEL else outcome
        self.found |= {place: (row, usual) for place, row in good.items()}
        return bad

    def _kept_of_partial(self, items: Numbered[ItemT], error: AnswerInvalid) -> Numbered[ItemT]:
        """Keep the whole rows of an answer that was cut off or is damaged; returns the items that are left."""
        partial = salvaged(error.partial, self.question.form) if error.partial else None
        if partial is None:
            return items
        bad = self.keep(items, self.question.rows(partial), ItemOutcome.SALVAGED)
        return [item for item in items if item[0] in bad]

    async def _after_fault(
        self, items: Numbered[ItemT], error: AnswerInvalid, *, note: str, slow_splits: int, clip: bool
    ) -> None:
        """Ask for less, or once more with the fault named, where the fault allows."""
        if not items:
            return
        fault = error.fault
        if fault.asks_for_less and len(items) > 1:
            if fault is not AnswerFault.SLOW:
                await self._halves(items, note=note, slow_splits=slow_splits)
            elif slow_splits > 0:
                await self._halves(items, note=note, slow_splits=slow_splits - 1)
        elif fault is AnswerFault.TOO_LARGE and clip and self.question.clipped is not None:
            shorter = [(place, self.question.clipped(item)) for place, item in items]
            await self.ask(shorter, note=note, salvaging=True, slow_splits=0, clip=False)
        elif (fault.correctable or fault is AnswerFault.CUT) and not note:
            await self.ask(items, note=str(error), slow_splits=slow_splits, clip=clip)
        elif fault.may_be_of_one_item and len(items) > 1 and (self.found or self._may_fail_again):
            await self._halves(items, note=note, slow_splits=slow_splits)

    def _endless(self, asked: Numbered[ItemT], left: Numbered[ItemT], error: AnswerInvalid) -> tuple[int, ItemT] | None:
        """The item that a cut answer said more of than an answer about it alone may say; `None` for any other."""
        if error.fault is not AnswerFault.CUT or len(left) < 2:
            return None
        number = number_unfinished(error.partial)
        named = asked[number - 1] if 0 < number <= len(asked) else left[0]
        item = named if named in left else left[0]
        alone = self.question.prompt([item[1]]).max_tokens
        return item if prompt_tokens(unfinished(error.partial)) >= alone else None

    async def _apart(self, endless: tuple[int, ItemT], left: Numbered[ItemT], error: AnswerInvalid) -> None:
        """Ask about the item alone, which no smaller question would end, and about the others in halves."""
        others = [item for item in left if item[0] != endless[0]]
        alone = (self.ask([endless], note=str(error)),) if self._may_fail_again else ()
        await side_by_side((*alone, self._halves(others, note="", slow_splits=1)))

    @property
    def _may_fail_again(self) -> bool:
        return self.failures < _MAX_FAILURES + len(self.found)

    async def _halves(self, items: Numbered[ItemT], *, note: str, slow_splits: int) -> None:
        middle = (len(items) + 1) // 2
        parts = [part for part in (items[:middle], items[middle:]) if part]
        await side_by_side(self.ask(part, note=note, salvaging=not note, slow_splits=slow_splits) for part in parts)


def _named(bad: dict[int, str], numbers: dict[int, int]) -> str:
    """The first faults, by the numbers of the items."""
    named = sorted((numbers[place], fault) for place, fault in bad.items() if place in numbers)
    return "; ".join(f"{number}: {fault}" for number, fault in named[:_MAX_NAMED])
