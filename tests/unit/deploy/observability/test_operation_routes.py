"""Processes and generations, as the gateway shows them to those who operate the memory."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from eunoe.deploy.gateway.keys import ANY_TENANT, KeyScope
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.health import HealthState, Phase
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.observability.process_records import FORGOTTEN, Announcer, announced, bounds_of
from eunoe.workers.models.questions.buckets import Buckets
from eunoe.workers.registry import StageSettings
from eunoe.workers.runner.metrics import Hop
from eunoe.workers.stores.records.generations import Generation, GenerationState
from eunoe.workers.summarize.settings import SummarizeSettings
from tests.support.gateway import LATER, TestGateway, make_gateway, told
from tests.support.in_memory import START, make_pipeline
from tests.support.memory.process_records import MemoryRecords

DIFF = "/v1/conversations/c/generations/v2/diff"


@pytest.fixture
def gateway(tmp_path) -> TestGateway:
    return make_gateway(tmp_path)


@dataclass
class Noticed(MemoryRecords):
    """Records of which the first one is noticed."""

    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, name: str, text: str) -> None:
        await super().write(name, text)
        self.written.set()


def at_work() -> MetricSources:
    sources = MetricSources(WorkerMeter(), HealthState(phase=Phase.RUNNING))
    sources.meter.stage("update").events = 7
    sources.meter.stage("respond").asks[Hop.WHOLE].add(0.3)
    sources.health.progress("update").sample({("t", 0): 5}, {("t", 0): 8}, rebalancing=False)
    sources.health.letters["update", "invalid"] += 2
    return sources


def announcer(records: MemoryRecords, name: str = "host/1") -> Announcer:
    return Announcer(records, at_work(), "v1", name)


# ---- processes


async def test_a_process_says_how_far_it_is_behind(gateway):
    await announcer(gateway.app.gateway.processes).announce()
    async with gateway.client() as client:
        (found,) = (await client.get("/v1/processes")).json()["processes"]
    assert (found["silent"], found["status"]["ready"], found["status"]["why"]) == (False, True, [])
    update, respond = found["status"]["stages"]["update"], found["status"]["stages"]["respond"]
    assert (update["lag"], update["events"], update["dead_letters"], update["answers"]) == (3, 7, 2, False)
    assert (respond["answers"], respond["took"]["count"]) == (True, 1)
    assert respond["took"]["half_s"] >= 0.3


async def test_a_process_that_stops_is_gone_and_one_that_dies_falls_silent(gateway):
    records = Noticed(gateway.app.gateway.processes.texts)
    async with announced(announcer(records)):
        await asyncio.wait_for(records.written.wait(), 5)
        assert set(records.texts) == {"host/1"}
    assert records.texts == {}
    died = announcer(records).status(datetime.now(UTC) - timedelta(minutes=2))
    await records.write(died.name, died.model_dump_json())
    await records.write("host/2", "of another version")
    async with gateway.client() as client:
        (found,) = (await client.get("/v1/processes")).json()["processes"]
    assert found["silent"]
    assert found["age_s"] >= 120


async def test_what_died_long_ago_is_forgotten_by_the_next_that_starts():
    records = MemoryRecords()
    for name, ago in (("old", FORGOTTEN * 2), ("young", FORGOTTEN / 2)):
        status = announcer(records, name).status(datetime.now(UTC) - ago)
        await records.write(name, status.model_dump_json())
    await announcer(records).clean()
    assert set(records.texts) == {"young"}


async def test_processes_are_for_those_with_the_scope_of_whichever_tenant(gateway):
    usual = frozenset({KeyScope.MEMORY_READ, KeyScope.OPERATE})
    async with gateway.client(scopes=usual) as client:
        refused = await client.get("/v1/processes")
    assert (refused.status_code, "processes:read" in refused.json()["detail"]) == (403, True)
    async with gateway.client(ANY_TENANT, scopes=frozenset({KeyScope.PROCESSES_READ})) as client:
        assert (await client.get("/v1/processes")).json()["processes"] == []
        assert (await client.get("/v1/generations")).status_code == 403


@pytest.mark.parametrize(
    ("durations", "bounds"),
    [([], (0, None, None)), ([0.5] * 18 + [3, 3], (20, 1.0, 5.0)), ([9, 9], (2, None, None))],
)
def test_durations_are_told_by_the_bounds_that_half_and_most_of_them_keep(durations, bounds):
    buckets = Buckets((1, 5))
    for seconds in durations:
        buckets.add(seconds)
    found = bounds_of(buckets)
    assert (found.count, found.half_s, found.most_s) == bounds


# ---- generations


@pytest.fixture
async def rebuilt(gateway, tmp_path) -> TestGateway:
    """A gateway with generation v2, which keeps one memory a session of the same conversation."""
    other = make_gateway(
        tmp_path / "v2", pipeline=make_pipeline(StageSettings(summarize=SummarizeSettings(max_memories=1)))
    )
    for one in (gateway, other):
        async with one.client() as client:
            await told(client)
            await told(client, events=LATER)
    gateway.states.others["v2"] = other.pipeline.store
    made = Generation(
        name="v2", state=GenerationState.BUILT, made_at=START, source="v1", changes={"summarize.max_memories": "1"}
    )
    await gateway.states.book.write(made)
    return gateway


async def test_generations_are_listed_with_what_they_were_built_with(rebuilt):
    async with rebuilt.client() as client:
        first, second = (await client.get("/v1/generations")).json()["generations"]
    assert (first["name"], first["live"], first["made_at"]) == ("v1", True, None)
    assert (second["name"], second["live"], second["source"], second["state"]) == ("v2", False, "v1", "built")
    assert second["changes"] == {"summarize.max_memories": "1"}


async def test_what_a_rebuild_changed_is_told_by_content(rebuilt):
    async with rebuilt.client() as client:
        memories = (await client.get("/v1/conversations/c/memories?status=all")).json()["memories"]
        found = (await client.get(DIFF)).json()
    assert (found["old"], found["new"], found["equal"], found["sessions"]) == ("v1", "v2", False, [2, 2])
    kinds = {one["kind"]: one for one in found["kinds"]}
    lost = kinds["memories"]
    assert (lost["old"], lost["new"]) == (len(memories), 2)
    assert lost["only_old"] == len(memories) - 2 > 0
    texts = {one["memory"]["text"] for one in memories}
    assert {one["old"] for one in lost["examples"] if one["new"] is None} <= texts
    assert (kinds["segments"]["only_old"], kinds["segments"]["only_new"]) == (0, 0)
    assert found["trees"][0]["leaves"] == len(memories)


async def test_a_generation_equals_itself_and_can_be_compared_the_other_way_round(rebuilt):
    async with rebuilt.client() as client:
        same = (await client.get(f"{DIFF}?against=v2&examples=0")).json()
        back = (await client.get("/v1/conversations/c/generations/v1/diff?against=v2")).json()
    assert same["equal"]
    assert (back["old"], back["new"]) == ("v2", "v1")
    assert next(one for one in back["kinds"] if one["kind"] == "memories")["only_new"] > 0


async def test_comparisons_are_of_the_tenants_own_conversations_and_of_generations_that_exist(rebuilt):
    async with rebuilt.client() as client, rebuilt.client("other") as other:
        assert (await other.get(DIFF)).status_code == 404
        assert (await client.get("/v1/conversations/nobody/generations/v2/diff")).status_code == 404
        assert (await client.get("/v1/conversations/c/generations/v9/diff")).status_code == 404
        assert (await client.get(f"{DIFF}?against=v9")).status_code == 404
        assert (await client.get(f"{DIFF}?examples=51")).status_code == 422
    async with rebuilt.client(scopes=frozenset({KeyScope.MEMORY_READ})) as reader:
        assert [(await reader.get(path)).status_code for path in (DIFF, "/v1/generations")] == [403, 403]
    async with rebuilt.client(conversations="team-") as prefixed:
        assert (await prefixed.get(DIFF)).status_code == 403
