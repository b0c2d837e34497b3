"""Blocked conversations: counted, with their age, and held where what they wait for is lost."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.deploy.observability.counters import WorkerMeter, model_servers
from eunoe.deploy.observability.exposition import metrics_text
from eunoe.deploy.observability.health import HealthState
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.process import stages
from eunoe.deploy.process.blocked_watch import blocked_watch
from eunoe.deploy.process.stages import StageFactory
from eunoe.schemas.decisions import Commit, Decision, Outbox, OutMessage, Scope
from eunoe.schemas.errors import NewerVersion
from eunoe.schemas.memory import MemoriesFormed
from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.cancelling import cancelled
from eunoe.streams.codec import encode
from eunoe.streams.record import Message, Revoked
from eunoe.streams.topics import Topic
from eunoe.workers.models.endpoint.client import Endpoint
from eunoe.workers.models.endpoint.embedding_endpoint import EndpointEmbedder, EndpointEmbedderSettings
from eunoe.workers.models.endpoint.language_model import OpenAIModel, OpenAISettings
from eunoe.workers.registry import STAGES, StageSettings
from eunoe.workers.runner.blocked import BRIEF_S, BlockedConversations, BlockReason
from eunoe.workers.runner.inbound import LogPlace
from eunoe.workers.stage import Dependencies
from tests.support.in_memory import START, Stores, make_dependencies
from tests.support.runner_bench import Bench, Lease, Script, closed
from tests.unit.deploy.observability.test_health import Clock, read

HELD, PARKED = BlockReason.HELD, BlockReason.PARKED
PLACE = {("memories", 0)}


class Stored:
    """What all processes have stored, in memory."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], dict[str, float]] = {}

    async def read(self, stage: str, kind: BlockReason) -> Mapping[str, float]:
        return dict(self.found.get((stage, kind), {}))

    async def add(self, stage: str, kind: BlockReason, since: Mapping[str, float]) -> None:
        there = self.found.setdefault((stage, kind), {})
        self.found[stage, kind] = {**since, **there}

    async def remove(self, stage: str, kind: BlockReason, keys: set[str]) -> None:
        for key in keys:
            self.found.get((stage, kind), {}).pop(key, None)


def formed(session: int, turns: tuple[int, ...] = ()) -> MemoriesFormed:
    return MemoriesFormed(
        conversation_id="c",
        session=session,
        drafts=(),
        turns=turns,
        known_from=START,
        made_by={"code": "summarize/1", "model": "none"},
    )


class Update:
    """Stage update on a log, with a clock for blocked conversations."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.bench = Bench(Script(Decision()), STAGES["update"], Topic.MEMORIES)
        self.blocked = BlockedConversations(self.clock)
        stage = STAGES["update"].build(self._dependencies())
        self.bench = Bench(stage, STAGES["update"], Topic.MEMORIES)
        # the stage reads the stores of its bench
        stage._store = self.bench.stores.state  # type: ignore[attr-defined]
        self.bench.runner._applier._blocked = self.blocked

    def _dependencies(self) -> Dependencies:
        return make_dependencies(self.bench.stores, StageSettings())

    async def take(self, event: MemoriesFormed) -> None:
        record = self.bench.log.append(Message(Topic.MEMORIES, b"default/c", encode(event)))
        await self.bench.runner.handle(record, Lease())

    async def blend_applies(self, turn: int, *, sent: bool) -> None:
        outbox = None if sent else Outbox(number=turn, messages=(OutMessage(topic="memories", key="default/c"),))
        scope = Scope("blend", "default/c")
        applied = (await self.bench.stores.state.ledger(scope)).applied
        assert await self.bench.stores.state.commit(scope, Commit(expect=applied, applied=turn, outbox=outbox))

    async def look(self, after_s: float = 60.0, *, caught_up: bool = True) -> list[DeadLetterReason]:
        self.clock.now += after_s
        await self.bench.runner.hold_lost(PLACE if caught_up else set())
        return self.bench.letters()


async def test_a_proposal_that_was_sent_and_never_came_holds_the_conversation(caplog: pytest.LogCaptureFixture):
    update = Update()
    await update.take(formed(1, turns=(1,)))
    await update.blend_applies(1, sent=True)
    assert await update.look() == [], "it may have been sent just now"
    assert await update.look() == [DeadLetterReason.HELD]
    assert "HELD default/c: blend has applied and sent the proposals of turns [1]" in caplog.text
    assert await update.look() == [DeadLetterReason.HELD], "once"
    assert {kind: count for kind, (count, _) in update.blocked.counts().items()} == {PARKED: 0, HELD: 1}


@pytest.mark.parametrize(("applied", "sent", "caught_up"), [(0, True, True), (1, False, True), (1, True, False)])
async def test_a_proposal_that_may_still_come_is_waited_for(applied: int, sent: bool, caught_up: bool):
    update = Update()
    await update.take(formed(1, turns=(1,)))
    if applied:
        await update.blend_applies(applied, sent=sent)
    for _ in range(5):
        assert await update.look(caught_up=caught_up) == []
    count, age = update.blocked.counts()[PARKED]
    assert (count, age) == (1, 300.0)


@pytest.mark.parametrize("text", ["rubbish", "[]", '{"type": "memories_formed"}', '{"memory_id": "m"}'])
async def test_a_parked_event_that_is_none_any_more_holds_the_conversation(text: str):
    """It crashed each worker that met it, and each look at those that wait longer."""
    update = Update()
    await update.take(formed(1, turns=(1,)))
    (parked,) = update.bench.stores.state._parked[Scope("update", "default/c")].values()
    parked |= dict.fromkeys(parked, text)
    assert await update.look() == [DeadLetterReason.HELD]
    await update.take(formed(2))
    assert update.bench.letters() == [DeadLetterReason.HELD] * 2


async def test_a_parked_event_of_a_newer_version_waits():
    update = Update()
    await update.take(formed(1, turns=(1,)))
    (parked,) = update.bench.stores.state._parked[Scope("update", "default/c")].values()
    parked |= {slot: text.replace('"schema_version":1', '"schema_version":99') for slot, text in parked.items()}
    with pytest.raises(NewerVersion, match="schema version 99"):
        await update.look()


async def test_a_session_that_waited_briefly_is_not_counted_and_goes_on():
    update = Update()
    await update.take(formed(1, turns=(1,)))
    assert update.blocked.counts()[PARKED] == (0, 0.0)
    update.clock.now += BRIEF_S
    assert update.blocked.counts()[PARKED] == (1, BRIEF_S)
    update.blocked.note_commit("default/c")
    assert update.blocked.counts()[PARKED] == (0, 0.0)


async def test_a_gap_is_counted_as_held_until_it_is_repaired():
    clock, stored = Clock(), Stored()
    bench, blocked = Bench(Script(Decision())), BlockedConversations(clock)
    bench.runner._applier._blocked = blocked
    await bench.handle(closed(1), closed(3))
    assert blocked.counts()[HELD] == (1, 0.0)
    await blocked.sync("segment", stored)
    successor = BlockedConversations(clock)
    await successor.sync("segment", stored)
    clock.now += 50
    assert successor.counts()[HELD] == (1, 50.0)
    await stored.remove("segment", HELD, {"default/c"})
    for each in (blocked, successor):
        await each.sync("segment", stored)
        assert each.counts()[HELD] == (0, 0.0)


async def test_a_successor_that_applies_the_session_takes_it_from_the_store():
    clock, stored = Clock(), Stored()
    update = Update()
    update.blocked._now = clock
    await update.take(formed(1, turns=(1,)))
    clock.now += BRIEF_S
    await update.blocked.sync("update", stored)
    assert await stored.read("update", PARKED) == {"default/c": 0.0}
    successor = BlockedConversations(clock)
    await successor.sync("update", stored)
    successor.note_commit("default/c")
    await successor.sync("update", stored)
    assert await stored.read("update", PARKED) == {}


class GoesOn(Stored):
    """Before the first call of one kind, the conversation goes on."""

    def __init__(self, blocked: BlockedConversations, before: str) -> None:
        super().__init__()
        self._blocked = blocked
        self._before = before

    def _called(self, name: str) -> None:
        if name == self._before:
            self._before = ""
            self._blocked.note_commit("default/c")

    async def read(self, stage: str, kind: BlockReason) -> Mapping[str, float]:
        self._called("read")
        return await super().read(stage, kind)

    async def add(self, stage: str, kind: BlockReason, since: Mapping[str, float]) -> None:
        self._called("add")
        await super().add(stage, kind, since)


@pytest.mark.parametrize("before", ["add", "read"])
async def test_a_conversation_that_goes_on_while_it_is_being_stored_is_taken_from_the_store_again(before: str):
    update = Update()
    stored = GoesOn(update.blocked, before)
    await update.take(formed(1, turns=(1,)))
    update.clock.now += BRIEF_S
    await update.blocked.sync("update", stored)
    assert update.blocked.counts()[PARKED] == (0, 0.0)
    await update.blocked.sync("update", stored)
    assert await stored.read("update", PARKED) == {}


async def test_what_was_parked_in_a_partition_that_another_process_got_is_left_to_that_process():
    update, stored = Update(), Stored()
    await update.take(formed(1, turns=(1,)))
    update.blocked.keep(PLACE)
    assert update.blocked.parked_for(0.0), "its partition is assigned still"
    update.blocked.keep({("memories", 1)})
    update.clock.now += BRIEF_S
    await update.blocked.sync("update", stored)
    assert await stored.read("update", PARKED) == {}, "the other process may have applied it by now"
    assert update.blocked.parked_for(0.0) == []


class Consumer:
    """A consumer of stage update with the partitions that it is assigned."""

    stage = "update"

    def __init__(self) -> None:
        self.partitions = set(PLACE)
        self.rebalancing = False
        self.reads_again = 0

    def assigned(self) -> set[tuple[str, int]]:
        return set() if self.rebalancing else self.partitions

    def caught_up(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.assigned()

    async def read_again(self) -> None:
        self.reads_again += 1


@dataclass
class Watch:
    """The task that looks at the blocked conversations of stage update, after one of them was parked."""

    update: Update = field(default_factory=Update)
    consumer: Any = field(default_factory=Consumer)
    stored: Stored = field(default_factory=Stored)

    async def look(self) -> Mapping[str, float]:
        """Look once, a minute later; returns what is stored as parked."""
        self.update.clock.now += 60.0
        await blocked_watch(self.update.bench.runner, self.consumer, self.update.blocked, self.stored).run()
        return await self.stored.read("update", PARKED)


async def test_the_watch_stores_what_is_parked_and_holds_what_was_lost():
    watch = Watch()
    await watch.update.take(formed(1, turns=(1,)))
    await watch.update.blend_applies(1, sent=True)
    assert await watch.look() == {"default/c": 0.0}
    assert watch.update.bench.letters() == []
    await watch.look()
    assert watch.update.bench.letters() == [DeadLetterReason.HELD]


async def test_the_watch_leaves_what_was_parked_to_the_next_owner_of_its_partition():
    watch = Watch()
    await watch.update.take(formed(1, turns=(1,)))
    watch.consumer.partitions = {("memories", 1)}
    assert await watch.look() == {}
    assert watch.update.blocked.parked_for(0.0) == []


async def test_the_watch_forgets_nothing_while_partitions_are_reassigned():
    watch = Watch()
    await watch.update.take(formed(1, turns=(1,)))
    watch.consumer.rebalancing = True
    assert await watch.look() == {"default/c": 0.0}
    assert watch.update.blocked.parked_for(0.0), "its partition may be assigned again"


async def test_the_watch_has_the_stage_read_again_where_the_state_store_went_back(monkeypatch: pytest.MonkeyPatch):
    async def went_back(caught_up: object) -> None:
        raise Revoked

    watch = Watch()
    monkeypatch.setattr(watch.update.bench.runner, "hold_lost", went_back)
    await watch.look()
    assert watch.consumer.reads_again == 1


async def test_a_worker_looks_at_the_blocked_conversations_of_its_stages(monkeypatch: pytest.MonkeyPatch):
    watch = Watch()
    await watch.update.take(formed(1, turns=(1,)))
    watch.update.clock.now += 60.0
    monkeypatch.setattr(stages, "RedisBlocked", lambda client, keys: watch.stored)
    clients: Any = SimpleNamespace(
        dependencies=watch.update._dependencies(), log_positions=None, publisher=None, redis=None, keys=None
    )
    unused: Any = None
    health, runners = HealthState(blocked={"update": watch.update.blocked}), {"update": watch.update.bench.runner}
    factory = StageFactory(unused, clients, LogPlace(0, 1), WorkerMeter(), health, unused, runners=runners)
    tasks = [asyncio.create_task(work) for work in factory.background("update", watch.consumer)]
    try:
        async with asyncio.timeout(5):
            while not watch.stored.found:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
    finally:
        await cancelled(*tasks)
    assert await watch.stored.read("update", PARKED) == {"default/c": 0.0}


async def test_waits_for_endpoints_of_models_are_counted_from_zero_by_name():
    chat = OpenAIModel(OpenAISettings(Endpoint(model="chatty", base_url="http://127.0.0.1:9/v1", key="k")))
    place = Endpoint(model="vectors", base_url="http://127.0.0.1:9/v1", key="k")
    embedder = EndpointEmbedder(EndpointEmbedderSettings(place, dimensions=8))
    dependencies = make_dependencies(Stores(), StageSettings())
    assert model_servers(dependencies) == []
    servers = model_servers(replace(dependencies, language=chat, embedder=embedder))
    assert [server.partition(" ")[0] for server in servers] == ["chatty", "vectors"], servers
    await chat.aclose()
    await embedder.aclose()


def test_counters_of_every_reason_begin_at_zero_and_gauges_are_there():
    sources = MetricSources(WorkerMeter(), HealthState())
    sources.meter.stage("update")
    sources.health.blocked["update"] = BlockedConversations()
    sources.health.outages.expect("Redis at r")
    samples = read(metrics_text(sources).decode())
    for reason in DeadLetterReason:
        assert samples[f"eunoe_dead_letters_total[('reason', '{reason}'), ('stage', 'update')]"] == 0
    for name in ("parked", "parked_oldest_seconds", "held", "held_oldest_seconds"):
        assert samples[f"eunoe_{name}[('stage', 'update')]"] == 0
    assert samples["eunoe_waits_total[('server', 'Redis at r')]"] == 0
    assert samples["eunoe_waiting[('server', 'Redis at r')]"] == 0
    assert samples["eunoe_index_incomplete[]"] == 0
