"""Questions about numbered items: batches, halves, good items kept, bad ones asked again alone."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from eunoe.schemas.errors import AnswerFault, AnswerInvalid, Unavailable
from eunoe.schemas.events import Provenance
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.questions.answer_forms import SummariesForm, SummaryRow
from eunoe.workers.models.questions.asking import is_correcting
from eunoe.workers.models.questions.batches import split_batches
from eunoe.workers.models.questions.items import ItemQuestion, ask_items
from eunoe.workers.models.questions.metering import ItemCounts
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.stores.records.answers import MemoryAnswers

Answer = Callable[[list[str]], Sequence[SummaryRow]]


class Items:
    """Answers each item by its own text; ``asked`` holds the items of every question."""

    name = "items"

    def __init__(self, answer: Answer | None = None, largest: int = 100, fault: AnswerFault = AnswerFault.CUT) -> None:
        self.asked: list[list[str]] = []
        self.corrections = 0
        self.items = ItemCounts()
        self._answer = answer or right
        self._largest = largest
        self._fault = fault

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
        items = prompt.user.partition("\n\n")[0].splitlines()
        self.asked.append(items)
        self.corrections += is_correcting(prompt)
        await asyncio.sleep(0)
        if len(items) > self._largest:
            raise AnswerInvalid("no", self._fault)
        return SummariesForm(nodes=tuple(self._answer(items)))


def right(items: list[str]) -> list[SummaryRow]:
    return [SummaryRow(n=number, text=item.upper()) for number, item in enumerate(items, 1)]


QUESTION: ItemQuestion[str, SummaryRow] = ItemQuestion(
    form=SummariesForm,
    prompt=lambda items: Prompt(name="tree/9", system="s", user="\n".join(items)),
    fault=lambda row, item: "it is blank" if not row.text else None,
    clipped=lambda item: item[:3],
)
LETTERS = ["alpha", "beta", "gamma", "delta"]


def texts(rows: Sequence[SummaryRow | None]) -> list[str | None]:
    return [None if row is None else row.text for row in rows]


async def test_batches_are_asked_side_by_side_and_come_back_in_order():
    model = Items()
    found = await ask_items(model, QUESTION, [LETTERS[:3], LETTERS[3:]])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]
    assert model.items.of("tree") == {"model": 4, "corrected": 0, "salvaged": 0, "offline": 0}


@pytest.mark.parametrize(
    "bad",
    [
        lambda items: right(items)[:1] + right(items)[2:],
        lambda items: [*right(items), SummaryRow(n=2, text="another")],
        lambda items: [*right(items)[:1], SummaryRow(n=2, text=""), *right(items)[2:]],
        lambda items: [SummaryRow(n=90 if row.n == 2 else row.n, text=row.text) for row in right(items)],
    ],
    ids=["left out", "twice", "blank", "strange number"],
)
async def test_a_bad_item_alone_is_asked_once_more(bad: Answer):
    model = Items(lambda items: bad(items) if len(items) > 1 else right(items))
    found = await ask_items(model, QUESTION, [LETTERS])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]
    assert model.asked == [LETTERS, ["beta"]]
    assert model.items.of("tree") == {"model": 0, "corrected": 1, "salvaged": 3, "offline": 0}


@pytest.mark.parametrize("count", [1, 4])
async def test_rows_that_count_from_0_are_about_the_next_item_each(count: int):
    model = Items(lambda items: [row.model_copy(update={"n": row.n - 1}) for row in right(items)])
    found = await ask_items(model, QUESTION, [LETTERS[:count]])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"][:count]
    assert model.asked == [LETTERS[:count]]


async def test_a_row_0_beside_all_others_is_one_too_many():
    model = Items(lambda items: [SummaryRow(n=0, text="none"), *right(items)])
    assert texts((await ask_items(model, QUESTION, [LETTERS])).rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]


async def test_where_a_row_0_leaves_it_unsure_what_each_is_about_none_is_believed():
    def some(items: list[str]) -> list[SummaryRow]:
        return [SummaryRow(n=n, text=f"about {n}") for n in (0, 2, 3)]

    model = Items(some)
    assert texts((await ask_items(model, QUESTION, [LETTERS])).rows) == [None] * 4
    assert model.asked == [LETTERS, LETTERS]
    model = Items(lambda items: right(items) if len(model.asked) > 1 else some(items))
    assert texts((await ask_items(model, QUESTION, [LETTERS])).rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]


async def test_an_item_that_stays_bad_is_left_open_and_the_others_are_kept():
    model = Items(lambda items: [row for row in right(items) if row.text != "BETA"])
    found = await ask_items(model, QUESTION, [LETTERS])
    assert texts(found.rows) == ["ALPHA", None, "GAMMA", "DELTA"]
    assert (found.open, model.corrections) == ([1], 1)
    made = found.provenance(Provenance(code="c", model="m"), Provenance(code="c", model="offline"))
    assert (made.model, made.prompt, made.fallback, made.fell_back, made.items) == ("m", "tree/9", False, 1, 4)


@pytest.mark.parametrize("fault", [AnswerFault.CUT, AnswerFault.TOO_LARGE])
async def test_a_question_that_is_too_large_is_halved_until_it_fits(fault: AnswerFault):
    model = Items(largest=1, fault=fault)
    found = await ask_items(model, QUESTION, [LETTERS])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]
    assert [len(asked) for asked in model.asked] == [4, 2, 2, 1, 1, 1, 1]
    assert model.items.of("tree")["salvaged"] == 4


async def test_a_question_that_is_slow_is_halved_once():
    model = Items(largest=1, fault=AnswerFault.SLOW)
    found = await ask_items(model, QUESTION, [LETTERS])
    assert found.open == [0, 1, 2, 3]
    assert [len(asked) for asked in model.asked] == [4, 2, 2]
    made = found.provenance(Provenance(code="c", model="m"), Provenance(code="c", model="offline"))
    assert (made.model, made.fallback, made.fell_back) == ("offline", True, 4)


async def test_an_item_that_is_too_large_alone_is_clipped():
    def short_only(items: list[str]) -> list[SummaryRow]:
        if any(len(item) > 3 for item in items):
            raise AnswerInvalid("too large", AnswerFault.TOO_LARGE)
        return right(items)

    found = await ask_items(Items(short_only), QUESTION, [["alphabet"]])
    assert texts(found.rows) == ["ALP"]


def refusing(fault: AnswerFault, bad: str) -> Answer:
    """Refuses every question that holds the item."""

    def answer(items: list[str]) -> list[SummaryRow]:
        if bad in items:
            raise AnswerInvalid("no", fault)
        return right(items)

    return answer


@pytest.mark.parametrize("fault", [AnswerFault.REFUSED, AnswerFault.UNREADABLE, AnswerFault.EMPTY])
async def test_an_item_whose_content_is_refused_falls_back_alone(fault: AnswerFault):
    model = Items(refusing(fault, "i23"))
    items = [f"i{number}" for number in range(40)]
    found = await ask_items(model, QUESTION, [items])
    assert found.open == [23]
    assert model.items.of("tree")["offline"] == 1
    assert len(model.asked) <= 13


async def test_items_that_are_all_refused_are_not_asked_about_one_by_one():
    model = Items(largest=0, fault=AnswerFault.REFUSED)
    assert (await ask_items(model, QUESTION, [[f"i{number}" for number in range(40)]])).open == list(range(40))
    assert len(model.asked) <= 15


async def test_whole_rows_of_a_damaged_answer_are_kept():
    class Damaged(Items):
        async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
            answer = await super().answer(prompt, form)
            if len(self.asked) == 1:
                raise AnswerInvalid(
                    "not JSON", AnswerFault.UNREADABLE, answer.model_dump_json().replace('"GAMMA"', "GAMMA")
                )
            return answer

    model = Damaged()
    found = await ask_items(model, QUESTION, [LETTERS])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]
    assert model.asked == [LETTERS, ["gamma"]]
    assert model.items.of("tree") == {"model": 0, "corrected": 1, "salvaged": 3, "offline": 0}


async def test_whole_rows_of_an_answer_that_was_cut_are_kept():
    class Cut(Items):
        async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
            answer = await super().answer(prompt, form)
            if len(self.asked) == 1:
                raise AnswerInvalid("cut", AnswerFault.CUT, answer.model_dump_json()[:-25])
            return answer

    model = Cut()
    found = await ask_items(model, QUESTION, [LETTERS])
    assert texts(found.rows) == ["ALPHA", "BETA", "GAMMA", "DELTA"]
    assert model.asked == [LETTERS, ["delta"]]


async def test_a_replay_finds_the_good_items_and_leaves_the_same_open():
    kept = MemoryAnswers()
    halving = Items(lambda items: [row for row in right(items) if row.text != "BETA"], largest=2)
    first = await ask_items(RecordedModel(halving, kept), QUESTION, [LETTERS])
    mended = Items()
    again = await ask_items(RecordedModel(mended, kept), QUESTION, [LETTERS])
    assert texts(first.rows) == texts(again.rows) == ["ALPHA", None, "GAMMA", "DELTA"]
    assert mended.asked == []
    assert first.provenance(MADE, MADE) == again.provenance(MADE, MADE)


MADE = Provenance(code="c", model="m")


async def test_asking_what_fell_back_asks_the_open_items_alone():
    kept = MemoryAnswers()
    await ask_items(
        RecordedModel(Items(lambda items: [row for row in right(items) if row.text != "BETA"]), kept),
        QUESTION,
        [LETTERS[:2]],
    )
    mended = Items()
    found = await ask_items(RecordedModel(mended, kept, asks_refused=True), QUESTION, [LETTERS[:2]])
    assert (texts(found.rows), mended.asked) == (["ALPHA", "BETA"], [["beta"]])
    unasked = Items()
    again = await ask_items(RecordedModel(unasked, kept), QUESTION, [LETTERS[:2]])
    assert (texts(again.rows), unasked.asked) == (["ALPHA", "BETA"], [])


async def test_an_endpoint_that_is_away_leaves_nothing_recorded():
    class Away(Items):
        async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
            raise Unavailable("away")

    kept = MemoryAnswers()
    with pytest.raises(Unavailable):
        await ask_items(RecordedModel(Away(), kept), QUESTION, [LETTERS[:2], LETTERS[2:]])
    again = Items()
    await ask_items(RecordedModel(again, kept), QUESTION, [LETTERS[:2], LETTERS[2:]])
    assert len(again.asked) == 2


def test_batches_keep_groups_together_and_within_both_bounds():
    def cost(items: Sequence[str]) -> int:
        return sum(map(len, items))

    assert split_batches([["aa", "bb"], ["cc"], ["dd"]], cost, 6, 3) == [["aa", "bb", "cc"], ["dd"]]
    assert split_batches([["aa", "bb"], ["cc", "dd"]], cost, 100, 3) == [["aa", "bb"], ["cc", "dd"]]
    assert split_batches([["a", "b", "c", "d", "e"]], cost, 100, 2) == [["a", "b"], ["c"], ["d", "e"]]
    assert split_batches([["aaaaaaaa"]], cost, 2, 2) == [["aaaaaaaa"]]
    assert split_batches([], cost, 2, 2) == []
