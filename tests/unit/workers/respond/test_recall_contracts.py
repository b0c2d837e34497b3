"""Contracts of recall, after the cases of PrecisionMemBench: what must never, and what must always be shown."""

import pytest

from eunoe.schemas.events import Strategy
from eunoe.workers.compress.reads import read_stats
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.text.tokens import count_tokens
from tests.support.chats import local_embedder
from tests.support.in_memory import ended, utterance

BELIEFS = (
    "I write my services in Elixir.",
    "I deploy from a pipeline at the harbour office.",
    "My redis runs on the shelf in the cellar.",
    "I keep the logs for ninety days.",
    "I test every change on a small copy first.",
    "My database is a plain postgres.",
    "I pay for the cluster by the hour.",
    "The alerts ring on my old telephone.",
    "My dashboards are drawn in blue and grey.",
)


async def told(*beliefs: str, conversation: str = "c") -> InMemoryPipeline:
    """Each belief as an utterance of Ann in a session of its own."""
    pipeline = InMemoryPipeline(local_embedder(), StageSettings())
    await tell(pipeline, *beliefs, conversation=conversation)
    return pipeline


async def tell(pipeline: InMemoryPipeline, *beliefs: str, conversation: str = "c") -> None:
    for place, belief in enumerate(beliefs):
        said = utterance(2 * place + 1, belief, conversation=conversation)
        await pipeline.produce(
            said, utterance(2 * place + 2, "I see.", conversation=conversation), ended(conversation=conversation)
        )


async def ask(pipeline: InMemoryPipeline, question: str, budget: int = 400, conversation: str = "c") -> Context:
    key = f"default/{conversation}"
    speakers = (await read_stats(pipeline.store, key)).speakers
    source = recall_sources(pipeline.dependencies)[Strategy.FUSED]
    context = await source.recall(Query(key, question, speakers, budget, "Ann"))
    assert context.tokens == count_tokens(context.text) <= budget
    return context


@pytest.mark.parametrize(
    ("before", "now", "question"),
    [
        ("I live in a small flat in Paris these days.", "I moved out of my flat in Paris.", "Where do I live?"),
        ("I work at a bank in Graz.", "I quit my job at the bank in Graz.", "Where do I work?"),
        ("I have a red sailing boat in Oslo.", "I sold my red sailing boat in Oslo.", "Do I have a boat?"),
    ],
)
async def test_what_was_superseded_is_never_shown_as_holding(before, now, question):
    context = await ask(await told(before, BELIEFS[0], now), question)
    assert any(now in row.text for row in context.rows if row.is_current)
    assert not [row.text for row in context.rows if before in row.text and row.is_current]


@pytest.mark.parametrize("question", ["Where is my redis?", "redis", "Where does Ann keep the redis?"])
async def test_what_another_said_elsewhere_is_never_shown(question):
    pipeline = await told(*BELIEFS[:2])
    await tell(pipeline, BELIEFS[2], conversation="other")
    assert "cellar" in (await ask(pipeline, question, conversation="other")).text
    assert "cellar" not in (await ask(pipeline, question)).text


@pytest.mark.parametrize("question", ["", "  \n "])
async def test_an_empty_question_is_answered(question):
    assert (await ask(await told(*BELIEFS[:3]), question)).rows


@pytest.mark.parametrize("question", ["Where is my redis?", "what do I pay?", "my logs and alerts"])
async def test_the_order_is_stable(question):
    pipeline = await told(*BELIEFS)
    first = await ask(pipeline, question)
    assert [await ask(pipeline, question) for _ in range(3)] == [first] * 3
    assert [row.at for row in first.rows] == sorted(row.at for row in first.rows)


@pytest.mark.parametrize("budget", [0, 1, 12, 60, 4000])
async def test_no_budget_is_exceeded_and_none_is_left_where_there_is_more(budget):
    context = await ask(await told(*BELIEFS), "Where is my redis?", budget)
    assert bool(context.rows) is (budget >= 12)
    if budget == 4000:
        assert all(belief in context.text for belief in BELIEFS)


async def test_of_one_who_said_nothing_nothing_is_shown():
    assert await ask(await told(*BELIEFS[:2]), "Where is my redis?", conversation="nobody") == Context()


async def test_an_early_topic_comes_back_after_eight_others():
    pipeline = await told(BELIEFS[2], *BELIEFS[:2], *BELIEFS[3:])
    assert [row.text for row in (await ask(pipeline, "Where is my redis?", 18)).rows] == [BELIEFS[2]]
