"""Made again from a stage on: what depends on it, what is taken over, and that it is the same as from the log."""

from collections.abc import Sequence

import pytest

from eunoe.schemas.decisions import Collection, Ledger
from eunoe.schemas.events import ReplyRequested
from eunoe.schemas.memory import InsightsProposed, MemoriesFormed
from eunoe.schemas.ports import StoredConversation
from eunoe.streams.codec import decode
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.derive.dependents import changed_stages, dependents, made_again, producer_of
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.pipeline import TABLES, Derived, Deriver
from eunoe.workers.derive.resume import READ_TOPICS, Kept, earliest, kept_messages, needed, resume
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.registry import MEMORY_STAGES, STAGES, StageSettings
from eunoe.workers.runner.decider import RunnerSettings
from eunoe.workers.runner.recorded_outcomes import RecordedOutcomes
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import Stores, make_dependencies, make_pipeline, utterance
from tests.support.talk import talk
from tests.support.whole_state import read_digest

KEY = "default/c"
DERIVED = {name: STAGES[name] for name in MEMORY_STAGES}


def test_what_depends_on_a_stage():
    assert dependents("respond") == {"respond"}
    assert dependents("tree") == {"tree", "respond"}
    assert dependents("compress") == {"compress", "respond"}
    assert dependents("link") == {"link", "update", "tree", "blend", "respond"}
    assert made_again("summarize") == ("blend", "summarize", "update", "link", "tree")
    assert made_again("segment") == ("blend", "segment", "compress", "summarize", "update", "link", "tree")
    assert made_again("intake") == MEMORY_STAGES


def test_every_stage_s_dependents_depend_on_no_stage_that_would_be_kept():
    for stage in STAGES:
        again = dependents(stage)
        for name, spec in STAGES.items():
            if name not in again:
                assert not again & set(spec.reads)
                assert not any(set(spec.consumes) & set(STAGES[other].emits) for other in again)


def test_a_setting_concerns_the_stage_that_it_belongs_to():
    assert changed_stages(["link.associative", "timeline.retrieved", "embedding"]) == {"link", "segment"}
    assert changed_stages(["respond.budget_tokens"]) == frozenset()


def test_what_is_needed_is_what_kept_stages_write_for_those_that_are_made_again():
    assert needed(made_again("tree")) == {Topic.CHANGES}
    assert needed(made_again("link")) == {Topic.MEMORIES, Topic.REPLY_REQUESTS}
    assert needed(made_again("segment")) == {Topic.SESSIONS, Topic.REPLY_REQUESTS}
    assert needed(MEMORY_STAGES) == frozenset()


def test_where_a_topic_is_not_whole_an_earlier_stage_is_the_first():
    assert earliest("link", []) == "link"
    assert earliest("link", [Topic.CHANGES]) == "link"
    assert earliest("link", [Topic.MEMORIES]) == "summarize"
    assert earliest("tree", [Topic.CHANGES]) in {"link", "update", "blend"}
    assert earliest("link", [Topic.MEMORIES, Topic.SEGMENTS]) == "segment"
    assert earliest("link", [Topic.REPLY_REQUESTS]) == "intake"


async def live(settings: StageSettings | None = None) -> InMemoryPipeline:
    pipeline = make_pipeline(settings)
    for event in [*talk(), utterance(90, "One more thing: I adopted a cat in Bergen.")]:
        await pipeline.produce(event)
    return pipeline


async def kept_of(pipeline: InMemoryPipeline, again: Sequence[str]) -> Kept:
    kept = {name: TABLES[name] for name in MEMORY_STAGES if name not in again}
    collections = [entry.collection for name in kept for entry in STAGES[name].tables.indexed]
    return Kept(
        standing=await pipeline.store.export(KEY, kept),
        points=tuple([point for one in collections for point in await pipeline.index.points(one, KEY)]),
    )


def records_of(pipeline: InMemoryPipeline) -> list[Record]:
    return [record for topic in READ_TOPICS for record in pipeline.log.records(topic)]


async def made(pipeline: InMemoryPipeline, stage: str, settings: StageSettings | None = None) -> Derived:
    again = made_again(stage)
    deriver = Deriver(make_dependencies(Stores(), settings or StageSettings()), RunnerSettings(), RecordedOutcomes())
    kept = await kept_of(pipeline, again)
    told = kept_messages(kept, records_of(pipeline))
    assert not told.missing
    return await resume(deriver, KEY, kept, told)


async def state_of(standing: StoredConversation) -> dict[str, object]:
    store = MemoryStore()
    assert await store.swap(KEY, TABLES, standing, Ledger())
    return (await read_digest(store, KEY, DERIVED, log_times=True)).state


@pytest.mark.parametrize("stage", [stage for stage in MEMORY_STAGES if stage != "intake"])
async def test_from_any_stage_on_the_same_memory_comes_out(stage: str):
    pipeline = await live()
    derived = await made(pipeline, stage)
    live_digest = await read_digest(pipeline.store, KEY, DERIVED, log_times=True)
    assert await state_of(derived.standing) == live_digest.state
    points = {collection: await pipeline.index.points(collection, KEY) for collection in Collection}
    assert {collection: list(rows) for collection, rows in derived.points.items()} == points
    assert derived.failed == 0
    assert not any(record.topic == Topic.REPLY_CONTEXTS for record in derived.records)


async def test_what_the_stages_told_is_complete_and_told_once():
    pipeline = await live()
    derived = await made(pipeline, "link")
    for topic in READ_TOPICS:
        told = [record.value for record in derived.records if record.topic == topic]
        assert sorted(told) == sorted(record.value for record in pipeline.log.records(topic))
        assert len(told) == len(set(told))


async def test_a_change_of_link_changes_the_graph_alone():
    pipeline = await live()
    derived = await made(pipeline, "link", StageSettings(link=LinkSettings(associative=1)))
    before = (await read_digest(pipeline.store, KEY, DERIVED, log_times=True)).state
    after = await state_of(derived.standing)
    assert {stage for stage in before if before[stage] != after[stage]} == {"link"}
    full = await live(StageSettings(link=LinkSettings(associative=1)))
    assert after == (await read_digest(full.store, KEY, DERIVED, log_times=True)).state


async def test_a_stage_that_is_behind_catches_up():
    """The copy was taken between two stages: what intake had closed goes on through the others in memory."""
    pipeline = await live()
    again = made_again("link")
    kept = await kept_of(pipeline, again)
    for stage in ("segment", "summarize", "compress"):
        assert kept.standing.ledgers[stage].applied == 5
    behind = Kept(
        StoredConversation(
            {**kept.standing.ledgers, "summarize": Ledger(applied=3), "segment": Ledger(applied=4)},
            kept.standing.tables,
            kept.standing.parked,
        ),
        kept.points,
    )
    told = kept_messages(behind, records_of(pipeline))
    assert not told.missing
    assert (Topic.MEMORIES, 3) in told.records
    assert (Topic.MEMORIES, 4) not in told.records
    deriver = Deriver(make_dependencies(Stores(), StageSettings()), RunnerSettings(), RecordedOutcomes())
    derived = await resume(deriver, KEY, behind, told)
    assert await state_of(derived.standing) == (await read_digest(pipeline.store, KEY, DERIVED, log_times=True)).state


async def test_what_retention_has_taken_is_missed():
    pipeline = await live()
    kept = await kept_of(pipeline, made_again("link"))
    left = [
        record
        for record in records_of(pipeline)
        if not (record.topic == Topic.MEMORIES and b'"session":1,' in record.value)
    ]
    assert len(left) < len(records_of(pipeline))
    assert kept_messages(kept, left).missing == {Topic.MEMORIES}


async def test_who_wrote_what():
    pipeline = await live()
    written = {
        (type(event), producer_of(topic, event))
        for topic in READ_TOPICS
        for event in (decode(record.value) for record in pipeline.log.records(topic))
    }
    assert (MemoriesFormed, "summarize") in written
    assert (InsightsProposed, "blend") in written
    assert (ReplyRequested, "intake") in written
