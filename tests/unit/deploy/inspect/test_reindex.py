"""The vector index made again from the state store."""

import json
from pathlib import Path

import pytest

from eunoe.deploy.datasets.load import read_events
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.registry import STAGES
from tests.support.in_memory import make_pipeline, utterance

DEMO = Path(__file__).parents[4] / "deploy/demo/conversation.jsonl"


async def demo() -> tuple[InMemoryPipeline, str]:
    pipeline = make_pipeline()
    await pipeline.play(read_events(DEMO))
    line = json.loads(DEMO.read_text().splitlines()[0])
    return pipeline, f"default/{line['conversation_id']}"


@pytest.mark.parametrize("name", [name for name, spec in STAGES.items() if spec.tables.indexed])
async def test_the_points_made_from_documents_are_those_that_the_stage_made(name: str):
    pipeline, key = await demo()
    spec = STAGES[name]
    assert spec.restore_points is not None
    made = sorted(await spec.restore_points(pipeline.dependencies, key), key=lambda point: point.id)
    for indexed in spec.tables.indexed:
        there = await pipeline.index.points(indexed.collection, key)
        assert len(there) > 5
        assert [point.model_copy(update={"seq": 1}) for point in made] == [
            point.model_copy(update={"seq": 1}) for point in there
        ]
        # a change of a node's place in the tree changes no point
        assert all(new.seq >= old.seq for new, old in zip(made, there, strict=True))


async def test_a_conversation_without_memory_has_no_points():
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "Hello."))
    for spec in STAGES.values():
        if spec.restore_points is not None:
            assert list(await spec.restore_points(pipeline.dependencies, "default/c")) == []
