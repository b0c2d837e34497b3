"""Offline replies in chats with an assistant: what it said is no evidence of the one who asks."""

from datetime import timedelta

import pytest

from eunoe.schemas.events import Ask
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.offline.replier import NOTHING
from eunoe.workers.respond.offline.whose import asks_of_ones_own
from tests.support.chats import local_embedder
from tests.support.in_memory import START, ended, utterance

TYRES = "A Volvo estate is a roomy car. For the winter I would take all-season tyres, and check their pressure."
SAID = (
    ("Ann", "My mum has type 2 diabetes since spring. What should she eat?"),
    (
        "agent",
        "For type 2 diabetes choose whole grains, vegetables and lean protein, and spread carbohydrates over the day."
        " Your mother's blood sugar needs regular checks, and many people feel better with a walk after each meal.",
    ),
    ("Ann", "We sold the Fiat and got a Volvo estate."),
    ("agent", TYRES),
    ("Ann", "I live in Jena now, at Lindenweg 4."),
    ("agent", "How nice! Do not forget to register your new address within two weeks."),
    ("Ann", "My favourite food is risotto."),
    (
        "agent",
        "Risotto wants patience: stir it, add warm stock by the ladle, and let the rice rest before you serve it."
        " A pinch of saffron gives it its colour.",
    ),
)


async def replies_to(*questions: str) -> list[str]:
    """The replies to Ann, a week after the chat."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    for number, (speaker, text) in enumerate(SAID):
        await pipeline.produce(utterance(number, text, speaker=speaker))
    await pipeline.produce(ended())
    for place, question in enumerate(questions):
        ask = Ask(request_id=f"r{place}", record=False)
        at = START + timedelta(days=7, seconds=place)
        await pipeline.produce(utterance(50 + place, question, speaker="Ann", at=at, ask=ask))
    texts = {reply.request_id: reply.text for reply in pipeline.replies()}
    return [texts[f"r{place}"] for place in range(len(questions))]


async def test_what_an_assistant_explains_is_no_fact_of_the_one_who_asks():
    unknown = ("What's my blood type?", "What is my favourite colour?", "What is my blood pressure?")
    assert await replies_to(*unknown) == [NOTHING] * len(unknown)


async def test_an_assistants_words_come_behind_what_was_told_and_are_told_as_its_own():
    illness, address, car, tyres = await replies_to(
        "Which type of diabetes does my mum have?",
        "What is my address?",
        "What car do we have?",
        "Which tyres should I take for the winter?",
    )
    assert address == f"On 1 January 2026 Ann said: “{SAID[4][1]}”"
    assert illness == f"On 1 January 2026 Ann said: “{SAID[0][1]}”"
    assert car == f"On 1 January 2026 I said: “{TYRES}”"
    assert tyres == f"On 1 January 2026 I said: “{TYRES}”"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What's my size?", True),
        ("What car do we have?", True),
        ("Which tyres should I take?", False),
        ("How do I clean my flute?", False),
        ("How cold should a bedroom be?", False),
    ],
)
def test_whether_the_asker_and_theirs_are_asked_about(question: str, expected: bool):
    assert asks_of_ones_own(question) is expected
