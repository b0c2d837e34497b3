"""Models of evaluations: the compressor of the settings, insights for strategy insight, shares made offline."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError

from eunoe.deploy.clients import models as clients
from eunoe.deploy.datasets.load import load_conversation
from eunoe.deploy.demo.bundled import CONVERSATION
from eunoe.deploy.evaluate.fallbacks import counts_of, item_lines, model_label, since
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.models import EvalModels, open_eval_models
from eunoe.deploy.evaluate.segmentation import OURS, Dialogue, evaluate_segmentation
from eunoe.deploy.settings import Settings
from eunoe.schemas.events import Provenance, Span, Strategy
from eunoe.schemas.memory import MemoryOrigin
from eunoe.workers.models.local.compression import LLMLINGUA_MODEL, OfflineCompressor
from eunoe.workers.models.questions.metering import ItemCounts, ItemOutcome
from eunoe.workers.registry import StageSettings
from eunoe.workers.segment.segmenter import Segmentation
from eunoe.workers.update.reads import all_memories
from tests.support.in_memory import HashEmbedder


class Shouting(OfflineCompressor):
    """Compresses nothing, in capitals."""

    async def compress(self, texts, keep):
        return [text.upper() for text in texts]


async def test_the_compressor_of_the_settings_denoises_the_memory():
    loaded = load_conversation(CONVERSATION)
    plain = await IndexedConversation.build(loaded, EvalModels(HashEmbedder()), StageSettings())
    loud = await IndexedConversation.build(loaded, EvalModels(HashEmbedder(), None, Shouting()), StageSettings())
    segments = [await one.dependencies.store.scan("compress", one.key, "segments") for one in (plain, loud)]
    assert segments[0].keys() == segments[1].keys()
    assert segments[0] != segments[1]


async def test_the_model_of_llmlingua_has_a_setting(monkeypatch):
    opened = []

    class Opened(OfflineCompressor):
        def __init__(self, model):
            opened.append(model)

        async def aclose(self):
            pass

    monkeypatch.setattr(clients, "LLMLinguaCompressor", Opened)
    async with AsyncExitStack() as closing:
        for name in ("llmlingua", "llmlingua:some/model", "offline"):
            await open_eval_models(Settings(compression=name), closing)
    assert opened == [LLMLINGUA_MODEL, "some/model"]
    with pytest.raises(ValidationError):
        Settings(compression="zip")


async def test_strategy_insight_retrieves_from_a_memory_with_insights():
    loaded = load_conversation(CONVERSATION)
    indexed = await IndexedConversation.with_insights(loaded, EvalModels(HashEmbedder()), StageSettings(), 3)
    assert indexed.blended is not None

    async def origins(one):
        return {memory.origin for memory in await all_memories(one.dependencies.store, one.key)}

    assert MemoryOrigin.INSIGHT not in await origins(indexed)
    assert MemoryOrigin.INSIGHT in await origins(indexed.blended)
    question = "Where does Mina live?"
    assert await indexed.context(Strategy.INSIGHT, question, 400) == await indexed.blended.context(
        Strategy.INSIGHT, question, 400
    )
    assert await indexed.context(Strategy.FUSED, question, 400) == await indexed.context(Strategy.FUSED, question, 400)


class Halving:
    """Cuts in the middle."""

    async def segment(self, lines):
        half = len(lines) // 2
        spans = (Span(first=0, last=half - 1), Span(first=half, last=len(lines) - 1))
        return Segmentation(spans, Provenance(code="segment/1", model="halving"))


class Whole:
    """Never cuts."""

    async def segment(self, lines):
        return Segmentation((Span(first=0, last=len(lines) - 1),), Provenance(code="segment/1", model="whole"))


async def test_segmenters_are_measured_beside_each_other():
    dialogue = Dialogue(("a", "b", "c", "d"), ("A", "B", "A", "B"), (2, 2))
    rows = await evaluate_segmentation([("x", [dialogue])], {OURS: Whole(), "m": Halving()}, HashEmbedder())
    assert {row.segmenter: row.f1 for row in rows if row.segmenter in {OURS, "m"}} == {OURS: 0, "m": 1}


@dataclass
class Model:
    items: ItemCounts = field(default_factory=ItemCounts)
    name: str = "m"


def counted(offline):
    model = Model()
    for outcome, items in (
        (ItemOutcome.MODEL, 90),
        (ItemOutcome.SALVAGED, 10 - offline),
        (ItemOutcome.OFFLINE, offline),
    ):
        model.items.add("link", outcome, items)
    return model


def test_a_row_says_when_over_a_twentieth_was_decided_offline():
    assert model_label(None) == "offline"
    assert model_label(counted(5)) == "with model m"
    assert model_label(counted(6)) == "with model m, 6% decided offline"


def test_shares_are_said_by_stage_and_since_a_time():
    before, after = counts_of(counted(0)), counts_of(counted(2))
    assert since(before, after)["link"] == {"model": 0, "corrected": 0, "salvaged": -2, "offline": 2}
    assert item_lines(after) == [
        "Stage link: 100 items; 90 by the model's first answer, 0 corrected, 8 salvaged, 2 offline (2%)."
    ]
    assert item_lines(counts_of(Model())) == []
