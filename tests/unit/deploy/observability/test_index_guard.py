"""A vector index that lost its points: no search is answered from nothing, and readiness says so."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from eunoe.deploy.datasets.load import read_events
from eunoe.deploy.generations.repaired_index import document_ids
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.observability.index_watch import check_index
from eunoe.schemas.decisions import Collection, Commit, Put, Scope
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.events import SessionEnded
from eunoe.schemas.ports import Search
from eunoe.workers.derive.in_memory import InMemoryPipeline
from eunoe.workers.derive.index_audit import compare_index, expected_entries, missing_entries
from eunoe.workers.derive.index_guard import SERVER, GuardedIndex, IndexGuard
from eunoe.workers.registry import STAGES
from eunoe.workers.stores.records.index_record import IndexRecord, lost_reason
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from tests.support.in_memory import make_pipeline, utterance

DEMO = Path(__file__).parents[4] / "deploy/demo/conversation.jsonl"
KEY = f"default/{json.loads(DEMO.read_text().splitlines()[0])['conversation_id']}"
NAMES = {collection.value: f"id of {collection}" for collection in Collection}


class Register:
    """The record, in memory."""

    def __init__(self) -> None:
        self.record = IndexRecord()

    async def read(self) -> IndexRecord:
        return self.record

    async def adopt(self, identities: Mapping[str, str]) -> None:
        self.record = replace(self.record, identities={**identities, **self.record.identities})


class Index(MemoryIndex):
    """An index whose collections have identities."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[str, str] = {}

    async def identities(self) -> Mapping[str, str]:
        return dict(self.there)

    async def clear(self) -> None:
        for point in self.all_points():
            await self.remove(point.collection, point.key, [point.id])

    async def prepare(self, embedder: str, dimensions: int) -> None:
        await super().prepare(embedder, dimensions)
        self.there = {**NAMES, **self.there}


class Store(MemoryStore):
    """A store whose samples are what comes first."""

    async def sample(self, count: int) -> set[str]:
        return set((await self.conversations())[:count])

    async def sample_documents(self, stage: str, key: str, table: str, count: int) -> dict[str, str]:
        return dict(list((await self.scan(stage, key, table)).items())[:count])


class NewerStore(Store):
    """A store whose documents a newer version has written, with a field of its own."""

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        found = await super().scan(stage, key, table)
        return {id_: json.dumps({**json.loads(text), "colour": "red"}) for id_, text in found.items()}


@dataclass
class Scene:
    """A pipeline in memory whose index is guarded."""

    pipeline: InMemoryPipeline
    index: Index = field(default_factory=Index)
    register: Register = field(default_factory=Register)

    def guard(self) -> IndexGuard:
        store = self.pipeline.store
        assert isinstance(store, Store)
        embedder = self.pipeline.embedder
        return IndexGuard(self.index, self.register, store, embedder, STAGES, lambda collection: collection.value)

    async def fill(self) -> None:
        for collection in Collection:
            await self.index.upsert(await self.pipeline.index.points(collection, KEY))


async def scene(store: type[Store] = Store) -> Scene:
    """Two sessions of the demo conversation, remembered and indexed."""
    events = list(read_events(DEMO))
    second = [at for at, event in enumerate(events) if isinstance(event, SessionEnded)][1]
    events = events[: second + 1]
    made = replace(make_pipeline(), store=Store())
    found = Scene(made)
    await found.guard().open()
    await made.play(events)
    await found.fill()
    made.store.__class__ = store
    return found


def search(**more: object) -> Search:
    return Search(**{"collection": Collection.SEGMENTS, "key": KEY, "limit": 5, "dense": b"\0\0\0\0" * 64, **more})


def test_collections_that_are_gone_or_new_are_lost_and_others_are_not():
    record = IndexRecord(NAMES)
    assert lost_reason(record, NAMES) is None
    assert lost_reason(IndexRecord(), {}) is None
    assert lost_reason(record, {**NAMES, "other": "x"}) is None
    assert "tree are gone" in str(lost_reason(record, {name: NAMES[name] for name in ("memories", "segments")}))
    assert "tree are new" in str(lost_reason(record, {**NAMES, "tree": "another"}))
    assert "since noon" in str(lost_reason(IndexRecord(NAMES, "noon"), NAMES))


async def test_an_index_that_was_filled_answers():
    found = await scene()
    guard = found.guard()
    await guard.open()
    (hits,) = await GuardedIndex(found.index, guard).search([search()])
    assert len(hits) == 5
    assert await guard.sample() is None


async def test_an_empty_qdrant_is_held_not_filled_anew_and_no_search_is_answered():
    found = await scene()
    found.index = Index()
    guard = found.guard()
    await guard.open()
    assert found.index.there == {}, "collections were made anew"
    assert "are gone" in str(guard.lost)
    with pytest.raises(Unavailable, match="eunoe reindex") as fault:
        await GuardedIndex(found.index, guard).search([search()])
    assert fault.value.server == SERVER


async def test_an_index_lost_under_a_process_that_found_it_whole_is_held_before_the_next_check():
    found = await scene()
    guard = found.guard()
    await guard.open()
    assert guard.lost is None
    # reindex has begun: the collections are there again, and empty
    await found.index.clear()
    found.index.there = dict.fromkeys(NAMES, "another")
    found.register.record = replace(found.register.record, restoring_since="noon")
    guarded = GuardedIndex(found.index, guard)
    with pytest.raises(Unavailable, match="being restored since noon"):
        await guarded.search([search()])
    await found.fill()
    found.register.record = IndexRecord(dict.fromkeys(NAMES, "another"))
    with pytest.raises(Unavailable, match="restored meanwhile"):
        await guarded.search([search()])
    (hits,) = await guarded.search([search()])
    assert len(hits) == 5


async def test_a_generation_of_an_older_version_whose_collections_are_missing_is_lost_too():
    found = await scene()
    found.register.record, found.index = IndexRecord(), Index()
    guard = found.guard()
    await guard.open()
    assert guard.lost is not None
    assert found.index.there == {}


async def test_one_conversation_without_its_points_waits_alone():
    found = await scene()
    await found.index.remove(Collection.SEGMENTS, KEY, list(await found.index.seqs(Collection.SEGMENTS, KEY)))
    guard = found.guard()
    await guard.open()
    guarded = GuardedIndex(found.index, guard)
    with pytest.raises(Unavailable, match=f"lacks points of {KEY}"):
        await guarded.search([search()])
    assert await guarded.search([search(key="default/other")]) == [[]]
    assert await guarded.search([search(born_before=1)]) == [[]], "nothing was said before the first session"
    assert len((await guarded.search([search(collection=Collection.MEMORIES)]))[0]) == 5


async def test_points_that_are_on_their_way_are_not_missing():
    found = await scene()
    pipeline = make_pipeline()
    await pipeline.produce(utterance(1, "I moved to Oslo."))
    assert await missing_entries(pipeline.store, MemoryIndex(), "default/c", STAGES) == []
    assert await missing_entries(found.pipeline.store, found.index, KEY, STAGES) == []


async def test_missing_points_hold_readiness_after_two_rounds_and_release_it():
    found = await scene()
    guard, health = found.guard(), HealthState(phase=Phase.RUNNING)
    await guard.open()
    some = list(await found.index.seqs(Collection.MEMORIES, KEY))[:1]
    await found.index.remove(Collection.MEMORIES, KEY, some)
    assert await check_index(guard, health, 0) == 0
    assert health.report().ready, "one round may be a repair that runs"
    assert await check_index(guard, health, 0) == 1
    report = health.report()
    assert (report.ready, report.live) == (False, True)
    assert report.why == (f"{SERVER}: Qdrant lacks points of 1 conversation: run `eunoe reindex`",)
    await found.fill()
    assert await check_index(guard, health, 1) == 0
    assert health.report().ready


@pytest.mark.parametrize("text", ["{}", "no JSON", "[1]"])
async def test_a_damaged_document_keeps_no_other_conversation_from_being_looked_at(
    text: str, caplog: pytest.LogCaptureFixture
):
    found = await scene()
    store, guard, health = found.pipeline.store, found.guard(), HealthState(phase=Phase.RUNNING)
    damaged, written = Scope("update", "default/a"), Put(table="memories", id="m1", text=text)
    assert await store.commit(damaged, Commit(expect=0, applied=1, writes=(written,)))
    await guard.open()
    some = list(await found.index.seqs(Collection.MEMORIES, KEY))[:1]
    await found.index.remove(Collection.MEMORIES, KEY, some)
    assert [await check_index(guard, health, bad) for bad in (0, 0)] == [0, 1]
    assert caplog.text.count("a document of default/a in memories is none of that table") == 1
    assert (await document_ids(store, damaged.key))[Collection.MEMORIES] == {"m1"}, "what a repair removes"


async def test_the_ids_of_documents_are_those_of_their_points():
    found = await scene()
    points = {one: set(await found.index.seqs(one, KEY)) for one in Collection}
    assert all(points.values())
    assert await document_ids(found.pipeline.store, KEY) == points


async def test_documents_of_a_newer_version_are_held_against_the_index_as_others_are():
    """While a deploy rolls, and after one that was taken back: a worker watches the index of both."""
    found, older = await scene(NewerStore), await scene()
    guard, health = found.guard(), HealthState(phase=Phase.RUNNING)
    await guard.open()
    assert await check_index(guard, health, 0) == 0
    store, index = found.pipeline.store, found.index
    assert await compare_index(store, index, KEY, STAGES) == []
    assert await expected_entries(store, KEY, STAGES["tree"]) == await expected_entries(
        older.pipeline.store, KEY, STAGES["tree"]
    )
    some = list(await index.seqs(Collection.TREE, KEY))[:1]
    await index.remove(Collection.TREE, KEY, some)
    assert [entry.id for entry in await missing_entries(store, index, KEY, STAGES)] == some
