"""A document of one conversation that is one of another table: the conversation is held, and the others go on."""

from dataclasses import replace

import pytest

from eunoe.schemas.decisions import Scope
from eunoe.schemas.events import Ask
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.topics import Topic
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import ended, make_pipeline, utterance
from tests.support.runner_bench import QUICK

TEXTS = ("I moved to Lyon in spring and I work at the harbour.", "My dog is called Rex and he is six years old.")
LETTERS = {
    ("compress", "segments"): {"respond"},
    ("compress", "stats"): {"compress", "respond"},
    ("intake", "head"): {"intake"},
    ("link", "vertices"): {"link", "respond"},
    ("tree", "nodes"): {"tree"},
    ("update", "changes"): {"update"},
    ("update", "memories"): {"update", "respond"},
    ("update", "stats"): {"update", "respond"},
    ("update", "terms"): {"update"},
}
"""Stage and table → the stages that read it in the next session and for an ask."""
FOREIGN = '{"memory_id":"m","speaker":"Ann","text":"I like jazz.","evidence":["u1"],"at":"2026-03-01T10:00:00Z"}'


async def say(pipeline: InMemoryPipeline, first: int, conversation: str) -> None:
    for number, text in enumerate(TEXTS, first):
        await pipeline.produce(utterance(number, text, conversation=conversation))
    await pipeline.produce(ended(conversation=conversation))


@pytest.mark.parametrize(("stage", "table"), LETTERS)
async def test_it_is_held_and_its_ask_answered_with_the_damage(stage: str, table: str):
    pipeline = make_pipeline(runner_settings=replace(QUICK, retry_limit_s=0.0))
    for name in ("c", "d"):
        await say(pipeline, 1, name)
        await say(pipeline, 3, name)
    assert isinstance(pipeline.dependencies.store, MemoryStore)
    rows = pipeline.dependencies.store._tables[stage, "default/c", table]
    for id_ in list(rows):
        rows[id_] = FOREIGN
    for name in ("c", "d"):
        await say(pipeline, 5, name)
        asked = Ask(request_id=f"ask-{name}", record=False)
        await pipeline.produce(utterance(9, "Where do I live?", conversation=name, ask=asked))
    letters = [read_dead_letter(record)[0] for record in pipeline.log.records(Topic.DEAD_LETTERS)]
    assert {letter.stage for letter in letters} == LETTERS[stage, table]
    assert {letter.reason for letter in letters} == {DeadLetterReason.HELD}
    assert all("a document of default/c is no " in letter.error for letter in letters)
    assert all("run `eunoe repair`" in letter.error for letter in letters)
    errors = {reply.request_id: reply.error for reply in pipeline.replies()}
    assert errors["ask-d"] is None
    assert ("is no" in (errors["ask-c"] or "")) == bool({"respond", "intake"} & LETTERS[stage, table])
    assert await pipeline.dependencies.store.applied(Scope("update", "default/d")) == 3
