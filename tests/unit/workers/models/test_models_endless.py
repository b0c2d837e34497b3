"""Models that say one text without an end: as many questions as there are such texts, and no more."""

import asyncio
import json
from collections.abc import Collection

import pytest

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.model_ports import LanguageModel, Prompt
from eunoe.workers.models.questions.answer_forms import StartsForm, SummariesForm, SummaryRow
from eunoe.workers.models.questions.asking import CheckedQuestion, ask_question, is_correcting
from eunoe.workers.models.questions.cut_answers import number_unfinished, unfinished
from eunoe.workers.models.questions.items import ItemQuestion, ask_items
from eunoe.workers.models.questions.metering import ItemOutcome

_CHARS_PER_TOKEN = 5


def prompt_of(items: Collection[str]) -> Prompt:
    return Prompt(name="tree/9", system="s", user="\n".join(items), max_tokens=256 + 70 * len(items))


QUESTION: ItemQuestion[str, SummaryRow] = ItemQuestion(form=SummariesForm, prompt=prompt_of, fault=lambda *_: None)
ITEMS = [f"item {number}" for number in range(40)]


class Endless:
    """Answers every item by its text, and says some texts until the answer is cut off."""

    name = "endless"

    def __init__(self, endless: Collection[str], *, first: int = 1) -> None:
        self.asked: list[int] = []
        self._endless = endless
        self._first = first

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
        items = prompt.user.partition("\n\n")[0].splitlines()
        self.asked.append(len(items))
        await asyncio.sleep(0)
        written = '{"nodes": ['
        for number, item in enumerate(items, self._first):
            if item in self._endless:
                written += f'{{"n": {number}, "text": "{"and so on " * 2000}'
                raise AnswerInvalid("cut", AnswerFault.CUT, written[: prompt.max_tokens * _CHARS_PER_TOKEN])
            written += json.dumps({"n": number, "text": item.upper()}) + ", "
        return SummariesForm.model_validate_json(f"{written.rstrip(', ')}]}}")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("places", [[0], [39], [17], [0, 1, 20, 39]])
async def test_an_endless_text_costs_its_own_item_alone(places: list[int], first: int):
    model = Endless({ITEMS[place] for place in places}, first=first)
    found = await ask_items(model, QUESTION, [ITEMS])
    assert found.open == places
    assert [row.text for row in found.rows if row is not None] == [
        item.upper() for place, item in enumerate(ITEMS) if place not in places
    ]
    assert len(model.asked) <= 1 + 3 * len(places)


async def test_a_model_whose_every_text_is_endless_is_asked_few_questions():
    model = Endless(ITEMS)
    assert (await ask_items(model, QUESTION, [ITEMS])).open == list(range(40))
    assert len(model.asked) <= 16


async def test_a_model_that_writes_on_in_front_of_its_answer_is_asked_few_questions():
    class Talkative(Endless):
        async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> SummariesForm:
            self.asked.append(1)
            await asyncio.sleep(0)
            raise AnswerInvalid("cut", AnswerFault.CUT, "Well, let me see. " * prompt.max_tokens)

    model = Talkative(())
    assert (await ask_items(model, QUESTION, [ITEMS])).open == list(range(40))
    assert len(model.asked) <= 16


async def test_an_endless_text_is_asked_for_once_more_and_in_no_parts():
    async def in_parts(model: LanguageModel) -> StartsForm | None:
        raise AssertionError

    class Topics:
        name = "topics"
        corrections = 0

        async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> StartsForm:
            self.corrections += is_correcting(prompt)
            written = '{"starts": [{"row": 1, "topic": "the flat"}, {"row": 4, "topic": "' + "and so on " * 500
            raise AnswerInvalid("cut", AnswerFault.CUT, written)

    model = Topics()
    asked = await ask_question(
        model, CheckedQuestion(prompt_of(ITEMS), StartsForm, lambda answer: None, smaller=in_parts)
    )
    assert (asked.answer, asked.asked, asked.outcome) == (None, 2, ItemOutcome.OFFLINE)
    assert model.corrections == 1
    assert asked.is_divisible


def test_the_end_of_a_cut_answer_is_the_item_within_which_it_was_cut():
    cut = 'Sure: {"nodes": [{"n": 1, "text": "a {brace}"}, {"n": 2, "text": "see [3] and {"'
    assert unfinished(cut) == ', {"n": 2, "text": "see [3] and {"'
    assert number_unfinished(cut) == 2
    assert unfinished("Well, ") == "Well, "
    assert number_unfinished("Well, ") == 0
