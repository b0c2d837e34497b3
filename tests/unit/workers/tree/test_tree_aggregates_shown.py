"""Aggregates that a model wrote, in the memory that an ask is shown."""

import pytest

from eunoe.schemas.events import Strategy
from eunoe.workers.registry import StageSettings
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings
from tests.support.changes import Planned, events, probe
from tests.support.in_memory import make_pipeline

SUMMARY = "Mia told many things."
"""What the planned model says of every node of the tree."""


async def recalled(settings: StageSettings, strategy: Strategy) -> tuple[list[str], list[str], Planned]:
    """The kinds of the sources of an ask, the texts of the model's rows, and the model."""
    model = Planned()
    pipeline = make_pipeline(settings, model)
    await pipeline.produce(*events(asks=False), probe("p", "What do you know of many things?", strategy=strategy))
    (reply,) = pipeline.replies()
    return [source.kind for source in reply.sources], [source.id for source in reply.sources], model


@pytest.mark.parametrize("strategy", [Strategy.FUSED, Strategy.TREE])
async def test_aggregates_are_among_the_sources_where_the_model_writes_them(strategy: Strategy):
    writing = StageSettings(tree=TreeSettings(ask_model=True, early_threshold=0.1))
    kinds, _, model = await recalled(writing, strategy)
    assert "SummariesForm" in model.asked
    assert Strategy.TREE in kinds
    nodes = StageSettings(
        tree=TreeSettings(ask_model=True, early_threshold=0.1), tree_recall=TreeRecallSettings(aggregates_stand=False)
    )
    without, _, _ = await recalled(nodes, Strategy.FUSED)
    assert Strategy.TREE not in without


async def test_by_default_no_model_writes_aggregates_and_fused_reads_no_tree():
    kinds, _, model = await recalled(StageSettings(), Strategy.FUSED)
    assert "SummariesForm" not in model.asked
    assert kinds
    assert Strategy.TREE not in kinds
