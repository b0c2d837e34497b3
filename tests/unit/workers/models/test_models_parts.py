"""Questions about stretches of a dialogue: what is refused for its content is divided."""

import asyncio
from collections.abc import Sequence

import pytest

from eunoe.schemas.errors import AnswerFault, AnswerInvalid
from eunoe.schemas.model_ports import Prompt
from eunoe.workers.models.questions.answer_forms import QuestionForm
from eunoe.workers.models.questions.asking import CheckedQuestion
from eunoe.workers.models.questions.metering import ItemCounts
from eunoe.workers.models.questions.parts import ask_parts
from eunoe.workers.models.questions.recording import RecordedModel
from eunoe.workers.stores.records.answers import MemoryAnswers

Words = tuple[str, ...]


class Refusing:
    """Answers with the words in capitals; refuses a question that holds one of ``bad``."""

    name = "refusing"

    def __init__(self, *bad: str, fault: AnswerFault = AnswerFault.REFUSED) -> None:
        self.asked: list[Words] = []
        self.items = ItemCounts()
        self._bad = set(bad)
        self._fault = fault

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> QuestionForm:
        words = tuple(prompt.user.partition("\n\n")[0].split())
        self.asked.append(words)
        await asyncio.sleep(0)
        if self._bad & set(words):
            raise AnswerInvalid("no", self._fault)
        return QuestionForm(question=prompt.user.upper())


def question(words: Words) -> CheckedQuestion[QuestionForm]:
    return CheckedQuestion(
        Prompt(name="segment/9", system="s", user=" ".join(words)), QuestionForm, lambda answer: None
    )


def halves(words: Words) -> Sequence[Words]:
    middle = (len(words) + 1) // 2
    return (words[:middle], words[middle:]) if len(words) > 1 else ()


WORDS: Words = ("a", "b", "c", "d")


async def found(model: Refusing | RecordedModel, *parts: Words) -> list[tuple[Words, str | None]]:
    answers = await ask_parts(model, parts, question, halves)
    return [(part, None if answer is None else answer.question) for part, answer in answers]


@pytest.mark.parametrize("fault", [AnswerFault.REFUSED, AnswerFault.TOO_LARGE])
async def test_only_the_part_that_is_refused_has_no_answer(fault: AnswerFault):
    model = Refusing("c", fault=fault)
    assert await found(model, WORDS, ("e", "f")) == [
        (("a", "b"), "A B"),
        (("c",), None),
        (("d",), "D"),
        (("e", "f"), "E F"),
    ]
    assert model.items.of("segment") == {"model": 1, "corrected": 0, "salvaged": 2, "offline": 1}


async def test_an_answer_of_the_wrong_form_divides_nothing():
    model = Refusing("c", fault=AnswerFault.UNREADABLE)
    assert await found(model, WORDS) == [(WORDS, None)]
    assert len(model.asked) == 2


async def test_an_endpoint_that_refuses_all_is_not_asked_about_every_word():
    words = tuple(f"w{number}" for number in range(64))
    model = Refusing(*words)
    assert all(answer is None for _, answer in await found(model, words))
    assert len(model.asked) == 15


async def test_a_replay_divides_the_same_parts_without_a_call():
    kept, mended = MemoryAnswers(), Refusing()
    first = await found(RecordedModel(Refusing("c"), kept), WORDS)
    again = await found(RecordedModel(mended, kept), WORDS)
    assert (again, mended.asked) == (first, [])


async def test_asking_what_was_refused_asks_it_whole():
    kept, mended = MemoryAnswers(), Refusing()
    await found(RecordedModel(Refusing("c"), kept), WORDS)
    assert await found(RecordedModel(mended, kept, asks_refused=True), WORDS) == [(WORDS, "A B C D")]
    assert mended.asked == [WORDS]
