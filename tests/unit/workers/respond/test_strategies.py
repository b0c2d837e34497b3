"""Every strategy has a source that keeps its budget, and stands wherever strategies are listed."""

import json
import re
from pathlib import Path

import pytest

from eunoe.schemas.events import Strategy
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.text.tokens import count_tokens
from tests.support.in_memory import ended, make_pipeline, utterance

KEY = "default/c"
SAID = ("My boat is called Freya.", "I keep the boat in the harbour of Oslo.", "I moved to Bergen with the boat.")
BUDGET = 30
DEPLOY = Path(__file__).parents[4] / "deploy"

each_strategy = pytest.mark.parametrize("strategy", Strategy)


@each_strategy
async def test_it_finds_memory_within_its_budget_and_only_its_conversation_s(strategy: Strategy):
    pipeline = make_pipeline()
    for number, text in enumerate(SAID):
        await pipeline.produce(utterance(number, text), ended())
    source = recall_sources(pipeline.dependencies)[strategy]
    found = await source.recall(Query(KEY, "Where is the boat?", ("Ann",), BUDGET))
    assert "boat" in found.text
    assert found.tokens == count_tokens(found.text) <= BUDGET
    assert {source.kind for source in found.sources} <= set(Strategy)
    assert (await source.recall(Query("default/other", "Where is the boat?", ("Ann",), BUDGET))).text == ""


def test_the_page_offers_all():
    (listed,) = re.findall(r"const STRATEGIES = (\[.*\]);", (DEPLOY / "gateway" / "page" / "ask.js").read_text())
    assert sorted(json.loads(listed)) == sorted(Strategy)


def test_the_architecture_describes_all():
    table = (DEPLOY / "docs" / "architecture.md").read_text().partition("| strategy | what the responder sees |")[2]
    described = re.findall(r"^\| `(\w+)`", table.partition("\n\n")[0], re.MULTILINE)
    assert sorted(described) == sorted(Strategy)
