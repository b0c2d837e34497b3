"""Idle conversations leave Redis and come back as they were, on a server, on a cluster, and sealed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import orjson
import pytest
from zstandard import ZstdCompressor

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Commit, Drop, Ledger, Outbox, OutMessage, Put, Scope, Timer
from eunoe.schemas.errors import NewerVersion, SnapshotLost, Unavailable
from eunoe.schemas.keys import Destruction
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.cold import snapshot
from eunoe.workers.stores.cold.conversations import ColdAccess, folder_of
from eunoe.workers.stores.cold.erased_snapshots import LATE_S, ErasedSnapshots
from eunoe.workers.stores.cold.freezer import ANNOUNCED_MS, Freezer, _Watched
from eunoe.workers.stores.cold.snapshot import Snapshot
from eunoe.workers.stores.cold.stores import TIMEOUT_S
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.records.generations import Generation, GenerationState, RedisGenerations, forget_generation
from eunoe.workers.stores.redis.connection import RedisClient, RedisConnection, Script
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.redis.staging import STAGED_MS
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants
from tests.contract.conftest import REDIS
from tests.support.memory.cold_store import MemoryColdStore
from tests.support.memory.key_store import MemoryKeyStore

pytestmark = pytest.mark.broker

KEY = "acme/c1"
INTAKE, UPDATE = Scope("intake", KEY), Scope("update", KEY)
TABLES = {"intake": ["head"], "update": ["memories", "terms", "stats"]}
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
PARTITION = 3
ROWS = {f"m{number}": f'{{"text":"zebrafish {number}"}}' for number in range(1_200)}


@dataclass
class Away(MemoryColdStore):
    """A cold store that can be switched off."""

    away: bool = False
    full: bool = False
    puts: list[str] = field(default_factory=list)

    async def put(self, name: str, data: bytes) -> None:
        self._check()
        if self.full:
            raise Unavailable("the cold store is full", "the cold store")
        self.puts.append(name)
        await super().put(name, data)

    async def get(self, name: str, most: int) -> bytes | None:
        self._check()
        return await super().get(name, most)

    def _check(self) -> None:
        if self.away:
            raise Unavailable("the cold store is away", "the cold store")


@dataclass
class Rig:
    """Stores of one generation over one Redis."""

    client: RedisClient
    keys: Keys
    data_keys: CachedKeys | None
    made: MemoryKeyStore
    cold: Away = field(default_factory=Away)

    def store(self, *, thaws: bool = True) -> RedisStore:
        return RedisStore(self.client, self.keys, data_keys=self.data_keys, cold=ColdAccess(self.cold, thaws=thaws))

    def freezer(self, settle_s: float = 0.0) -> Freezer:
        return Freezer(self.client, self.keys, self.cold, TABLES, after_s=86_400, settle_s=settle_s)

    async def fill(self) -> RedisStore:
        store = self.store()
        head = (Put("head", "head", '{"opened":1}'),)
        assert await store.commit(INTAKE, Commit(expect=0, applied=7, writes=head))
        writes = (*(Put("memories", id_, text) for id_, text in ROWS.items()), Put("terms", "zebrafish", '{"m":1}'))
        assert await store.commit(UPDATE, Commit(expect=0, applied=1, writes=writes))
        await self.schedule(LONG_AGO)
        return store

    async def schedule(self, active: datetime, number: int = 1, utterance: str | None = None) -> None:
        timer = Timer(after_utterance_id=utterance, since=active, number=number)
        await RedisLogPositions(self.client, self.keys).schedule(PARTITION, KEY, timer)

    def erased_snapshots(self) -> ErasedSnapshots:
        return ErasedSnapshots(RedisConnection(self.client), self.keys, self.store().cold)

    async def erase(self) -> None:
        """Replace the state by what is left of a conversation that was erased."""
        store = self.store()
        there = await store.ledger(INTAKE)
        empty = StoredConversation({"intake": Ledger(there.applied, lates=there.lates + 1)}, {}, {})
        assert await RedisTransplants(store, self.client, self.keys).swap(KEY, TABLES, empty, there)

    @property
    def snapshots(self) -> dict[str, bytes]:
        """The files of the cold store without its mark."""
        return {name: data for name, data in self.cold.files.items() if "/store-" not in name}

    async def freeze(self) -> int:
        freezer = self.freezer()
        await freezer.sweep([PARTITION])
        return await freezer.sweep([PARTITION])

    async def names(self) -> set[str]:
        """The keys of the conversation."""
        found = {name.decode() async for name in self.client.scan_iter(match=self.keys.generation_pattern())}
        return {name for name in found if f"{{{KEY}}}" in name}

    async def contents(self) -> dict[str, dict[bytes, bytes]]:
        """Its hashes, whole, but for the token of its return."""
        names = [name for name in await self.names() if await self.client.type(name) == b"hash"]
        found = {name: await self.client.hgetall(name) for name in names}
        return {name: {field: rows[field] for field in rows if field != b"thawed"} for name, rows in found.items()}


@pytest.fixture(params=[kind for kind in REDIS if kind != "memory"])
async def rig(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[Rig]:
    made = MemoryKeyStore()
    sealed = request.param == "sealed"
    url = request.getfixturevalue(f"{'redis' if sealed else request.param}_url")
    async with open_redis_url(url) as client:
        yield Rig(client, keys, CachedKeys(made) if sealed else None, made)
        await forget_generation(client, keys)


async def test_an_open_session_that_is_frozen_by_hand_still_ends_by_its_timer(rig: Rig) -> None:
    await rig.fill()
    await rig.schedule(LONG_AGO, number=2, utterance="u1")
    positions, freezer = RedisLogPositions(rig.client, rig.keys), rig.freezer()
    timer = await rig.client.hget(rig.keys.timer_documents(PARTITION), KEY)
    due = await positions.due(PARTITION, datetime.now(UTC), 10)
    await freezer.mark.ensure()
    assert await freezer.freeze(KEY, PARTITION, timer.decode())
    assert await rig.names() == {rig.keys.stub(KEY)}
    assert [one.key for one in due] == [KEY]
    assert await positions.due(PARTITION, datetime.now(UTC), 10) == due
    assert await rig.store().bring_back(KEY)
    assert await positions.due(PARTITION, datetime.now(UTC), 10) == due


async def test_an_idle_conversation_leaves_a_stub_and_comes_back_as_it_was(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    assert await rig.names() == {rig.keys.stub(KEY)}
    assert int(await rig.client.execute_command("MEMORY USAGE", rig.keys.stub(KEY))) <= 200
    assert await rig.client.hgetall(rig.keys.timer_documents(PARTITION)) == {}
    assert len(rig.snapshots) == 1
    assert await rig.store().conversations() == [KEY]
    store = rig.store()
    assert (await store.ledger(UPDATE)).applied == 1
    assert store.cold.meter.thawed == 1
    assert await rig.contents() == before
    assert await store.scan("update", KEY, "memories") == ROWS
    assert len(await rig.client.hgetall(rig.keys.timer_documents(PARTITION))) == 1


async def test_what_a_cold_conversation_had_applied_is_read_where_it_is(rig: Rig) -> None:
    store = await rig.fill()
    assert await store.cold_applied(INTAKE) is None, "it is hot"
    assert await rig.freeze() == 1
    worker = rig.store()
    assert [await worker.cold_applied(scope) for scope in (INTAKE, UPDATE)] == [7, 1]
    rig.cold.away = True
    assert await worker.cold_applied(INTAKE) == 7, "a snapshot is read once"
    rig.cold.away = False
    assert worker.cold.meter.thawed == 0
    assert await rig.names() == {rig.keys.stub(KEY)}
    assert (await worker.ledger(INTAKE)).applied == 7
    assert await rig.store().cold_applied(INTAKE) is None
    assert await RedisStore(rig.client, rig.keys, data_keys=rig.data_keys).cold_applied(INTAKE) is None
    assert await rig.freeze() == 1
    for name in rig.snapshots:
        del rig.cold.files[name]
    with pytest.raises(SnapshotLost):
        await rig.store().cold_applied(INTAKE)


async def test_a_snapshot_is_kept_until_the_next_one(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    (first,), stub = rig.snapshots, await rig.client.get(rig.keys.stub(KEY))
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert list(rig.snapshots) == [first]
    # the server loses its last writes: the conversation is cold again
    await rig.client.delete(*await rig.names())
    await rig.client.set(rig.keys.stub(KEY), stub)
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert await rig.contents() == before
    assert await rig.freeze() == 1
    (second,) = rig.snapshots
    assert second != first


async def test_readers_read_it_where_it_is(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    reader = rig.store(thaws=False)
    assert (await reader.ledger(UPDATE)).applied == await reader.applied(UPDATE) == 1
    assert (await reader.ledger(Scope("tree", KEY))).applied == await reader.applied(Scope("tree", KEY)) == 0
    assert await reader.fetch("update", KEY, "memories", ["m5", "none", "m7"]) == [ROWS["m5"], None, ROWS["m7"]]
    assert await reader.fetch("update", KEY, "terms", ["zebrafish", "lion"]) == ['{"m":1}', None]
    assert await reader.scan("update", KEY, "memories") == ROWS
    assert await reader.scan("update", KEY, "stats") == {}
    assert await reader.scan("update", "acme/other", "memories") == {}
    assert await rig.names() == {rig.keys.stub(KEY)}
    assert len((await RedisTransplants(reader, rig.client, rig.keys).export(KEY, TABLES)).tables) == 4
    assert await rig.names() == {rig.keys.stub(KEY)}


async def test_a_look_at_what_was_applied_brings_it_back(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    assert await rig.store().applied(UPDATE) == 1
    assert rig.keys.stub(KEY) not in await rig.names()


async def test_a_process_that_never_read_its_ledger_finds_it_too(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    store = rig.store()
    assert await store.fetch("update", KEY, "memories", ["m5"]) == [ROWS["m5"]]
    assert rig.keys.stub(KEY) not in await rig.names()


async def test_a_look_that_another_process_overtakes_sees_what_came_back(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    slow, quick = rig.store(), rig.store()

    @dataclass
    class Overtaken(Away):
        """Another process brings the conversation back before this one has the snapshot."""

        async def get(self, name: str, most: int) -> bytes | None:
            if slow.cold._store is self:
                await quick.ledger(UPDATE)
            return await super().get(name, most)

    overtaken = Overtaken()
    overtaken.files = rig.cold.files
    slow.cold._store = overtaken
    assert await slow.fetch("update", KEY, "memories", ["m5", "none"]) == [ROWS["m5"], None]
    assert (slow.cold.meter.thawed, quick.cold.meter.thawed) == (0, 1)


async def test_what_a_killed_process_was_bringing_back_goes_by_itself(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    killed = rig.store()
    snapshot = Snapshot.unpack(next(iter(rig.snapshots.values())))
    stub = (await rig.client.get(rig.keys.stub(KEY))).decode()
    for after in range(1, 4):
        calls = 0

        async def run(*words: Any, limit: int = after) -> Any:
            nonlocal calls
            calls += 1
            if calls > limit:
                raise Unavailable("killed", "Redis")
            return await RedisConnection(rig.client).run(*words)

        killed.cold._redis.run = run
        with pytest.raises(Unavailable, match="killed"):
            await killed.cold._thaw(stub, snapshot)
    left = [name for name in await rig.names() if "~" in name]
    assert len(left) >= 3
    assert all([0 < await rig.client.pttl(name) <= STAGED_MS for name in left])
    assert (await rig.store().ledger(UPDATE)).applied == 1
    await rig.erase()
    assert await rig.names() == {rig.keys.ledger(INTAKE)}


async def test_a_process_that_an_erasure_overtakes_while_it_brings_it_back_leaves_nothing(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    overtaken, begun, erased = rig.store(), False, False

    async def run(script: Script, *words: Any) -> Any:
        nonlocal begun, erased
        if script.name == "stage" and not begun:
            begun = True
            await rig.store().ledger(UPDATE)
            await rig.erase()
            erased = True
        done = await RedisConnection(rig.client).run(script, *words)
        assert not (erased and [name for name in await rig.names() if "~" in name])
        return done

    overtaken.cold._redis.run = run
    assert await overtaken.ledger(UPDATE) == Ledger()
    assert erased
    assert await rig.names() == {rig.keys.ledger(INTAKE)}


async def test_a_process_that_is_killed_while_it_brings_it_back_leaves_it_to_be_frozen_again(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    killed = rig.store()

    async def run(script: Script, *words: Any) -> Any:
        done = await RedisConnection(rig.client).run(script, *words)
        if script.name == "thaw":
            raise Unavailable("killed", "Redis")
        return done

    killed.cold._redis.run = run
    with pytest.raises(Unavailable, match="killed"):
        await killed.ledger(UPDATE)
    assert len(await rig.client.hgetall(rig.keys.timer_documents(PARTITION))) == 1
    assert await rig.freeze() == 1
    assert await rig.names() == {rig.keys.stub(KEY)}


async def test_a_timer_that_a_sweep_drops_meanwhile_is_there_again_with_the_state(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    overtaken = rig.store()

    async def run(script: Script, *words: Any) -> Any:
        if script.name == "thaw":
            await rig.freezer().sweep([PARTITION])
            assert await rig.client.hgetall(rig.keys.timer_documents(PARTITION)) == {}
        return await RedisConnection(rig.client).run(script, *words)

    overtaken.cold._redis.run = run
    assert (await overtaken.ledger(UPDATE)).applied == 1
    assert len(await rig.client.hgetall(rig.keys.timer_documents(PARTITION))) == 1


async def test_many_processes_at_once_bring_it_back_once(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    stores = [rig.store() for _ in range(8)]
    ledgers = await asyncio.gather(*(store.ledger(UPDATE) for store in stores))
    assert {ledger.applied for ledger in ledgers} == {1}
    assert sum(store.cold.meter.thawed for store in stores) == 1
    assert await rig.contents() == before


@pytest.mark.parametrize("obstacle", ["recent", "open", "unsent", "parked", "asked", "committed"])
async def test_what_is_under_way_stays(rig: Rig, obstacle: str) -> None:
    store = await rig.fill()
    freezer = rig.freezer()
    if obstacle == "recent":
        await rig.schedule(datetime.now(UTC) - timedelta(hours=23), number=2)
    elif obstacle == "open":
        await rig.schedule(LONG_AGO, number=2, utterance="u1")
    elif obstacle == "parked":
        await store.park(UPDATE, 3, "tree/1", '"x"')
    await freezer.sweep([PARTITION])
    if obstacle == "unsent":
        outbox = Outbox(number=2, messages=(OutMessage(topic="changes", key=KEY, text="1"),))
        assert await store.commit(UPDATE, Commit(expect=1, applied=2, outbox=outbox))
    elif obstacle == "asked":
        assert await store.commit(INTAKE, Commit(expect=7, applied=9))
    elif obstacle == "committed":
        freezer.tables = {**TABLES}
        assert await store.commit(INTAKE, Commit(expect=7, applied=8, writes=(Drop("head", "none"),)))
    before = await rig.contents()
    assert await freezer.sweep([PARTITION]) == 0
    assert await rig.contents() == before
    assert rig.snapshots == {}


async def test_a_change_while_the_snapshot_is_written_wins(rig: Rig) -> None:
    store = await rig.fill()

    @dataclass
    class Slow(Away):
        async def put(self, name: str, data: bytes) -> None:
            assert await store.commit(UPDATE, Commit(expect=1, applied=2, writes=(Put("memories", "m0", '"new"'),)))
            await super().put(name, data)

    rig.cold = Slow()
    assert not await rig.freezer().freeze(KEY, PARTITION, "")
    assert rig.snapshots == {}
    assert await rig.store().fetch("update", KEY, "memories", ["m0"]) == ['"new"']


async def test_an_answer_while_the_snapshot_is_written_wins(rig: Rig) -> None:
    store = await rig.fill()
    asked = Scope("update", KEY, "r1")

    @dataclass
    class Slow(Away):
        async def put(self, name: str, data: bytes) -> None:
            assert await store.commit(asked, Commit(expect=0, applied=1, writes=(Put("stats", "cited", '"m1"'),)))
            await super().put(name, data)

    rig.cold = Slow()
    assert not await rig.freezer().freeze(KEY, PARTITION, "")
    assert await rig.store().fetch("update", KEY, "stats", ["cited"]) == ['"m1"']


async def test_a_decision_soon_after_the_snapshot_wins_where_a_rest_is_asked(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, written = await rig.fill(), asyncio.Event()
    loop, ahead_s = asyncio.get_running_loop(), 0.0
    now = loop.time

    @dataclass
    class Telling(Away):
        async def put(self, name: str, data: bytes) -> None:
            await super().put(name, data)
            written.set()

    rig.cold = Telling()
    monkeypatch.setattr(loop, "time", lambda: now() + ahead_s)
    freezing = asyncio.create_task(replace(rig.freezer(), rest_s=1000.0).freeze(KEY, PARTITION, ""))
    await written.wait()
    await asyncio.wait({freezing}, timeout=0.1)
    assert not freezing.done(), "it does not rest"
    assert await store.commit(UPDATE, Commit(expect=1, applied=2))
    ahead_s = 1000.0
    assert not await freezing
    assert rig.snapshots == {}
    assert await replace(rig.freezer(), rest_s=0.01).freeze(KEY, PARTITION, "")


async def test_a_decision_between_two_reads_of_the_snapshot_wins(rig: Rig) -> None:
    store, freezer = await rig.fill(), rig.freezer()
    command = freezer._redis.command
    waiting = [Commit(expect=1, applied=2, writes=(Put("memories", "m0", '"new"'),))]

    async def late_ledgers(*words: Any) -> Any:
        of_ledger = words[:2] == ("HGETALL", rig.keys.ledger(UPDATE))
        if of_ledger:
            await asyncio.sleep(0.1)  # on a cluster, reads that are asked for together come in any order
        found = await command(*words)
        if words[0] == "HGETALL" and not of_ledger and "/" in words[1].rpartition("}")[2] and waiting:
            assert await store.commit(UPDATE, waiting.pop())
        return found

    freezer._redis.command = late_ledgers
    assert not await freezer.freeze(KEY, PARTITION, "")
    assert await rig.store().fetch("update", KEY, "memories", ["m0"]) == ['"new"']


async def test_a_decision_on_state_that_left_is_not_committed(rig: Rig) -> None:
    sleeper = await rig.fill()
    assert (await sleeper.ledger(UPDATE)).applied == 1
    assert await rig.freeze() == 1
    assert not await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=(Put("memories", "m0", '"lost"'),)))
    request = Scope("respond", KEY, "r1")
    assert not await sleeper.commit(request, Commit(expect=0, applied=1))
    transplants = RedisTransplants(sleeper, rig.client, rig.keys)
    empty = replace(await RedisTransplants(rig.store(thaws=False), rig.client, rig.keys).export(KEY, TABLES), tables={})
    assert not await transplants.swap(KEY, TABLES, empty, Ledger())
    assert (await sleeper.ledger(UPDATE)).applied == 1
    assert await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=(Put("memories", "m0", '"kept"'),)))
    assert await sleeper.fetch("update", KEY, "memories", ["m0"]) == ['"kept"']


async def test_a_decision_on_state_that_left_and_came_back_is_not_committed(rig: Rig) -> None:
    sleeper, other = await rig.fill(), rig.store()
    read = await sleeper.ledger(UPDATE)
    assert await rig.freeze() == 1
    assert await sleeper.fetch("update", KEY, "memories", ["m0"]) == [None]  # it was seen hot a moment ago
    assert (await other.ledger(UPDATE)).applied == 1
    write = (Put("memories", "m0", '"of what was not there"'),)
    assert not await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=write, server=read.server))
    request = Scope("respond", KEY, "r1")
    assert not await sleeper.commit(request, Commit(expect=0, applied=1, server=read.server))
    again = await sleeper.ledger(UPDATE)
    assert await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=write, server=again.server))


async def test_a_cold_store_that_is_away_is_waited_for(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    rig.cold.away = True
    with pytest.raises(Unavailable, match="is away"):
        await rig.freeze()
    assert await rig.contents() == before
    rig.cold.away = False
    assert await rig.freeze() == 1
    rig.cold.away = True
    for store in (rig.store(), rig.store(thaws=False)):
        with pytest.raises(Unavailable, match="is away"):
            await store.ledger(UPDATE)
        with pytest.raises(Unavailable, match="is away"):
            await store.fetch("update", KEY, "memories", ["m0"])
    with pytest.raises(Unavailable, match="set EUNOE_COLD__STORE as it was"):
        await RedisStore(rig.client, rig.keys, data_keys=rig.data_keys).ledger(UPDATE)
    rig.cold.away = False
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert await rig.contents() == before


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "another's"])
async def test_a_lost_snapshot_is_told_with_the_way_out(rig: Rig, damage: str) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    data = rig.cold.files.pop(name)
    if damage != "gone":
        changed = bytes(reversed(data))
        rig.cold.files[name] = {"cut": data[: len(data) // 2], "changed": changed, "another's": b""}[damage]
    store, told = rig.store(), f"run `EUNOE_GENERATION={rig.keys.generation} eunoe repair c1 --tenant acme`"
    with pytest.raises(SnapshotLost, match=told):
        await store.ledger(UPDATE)
    rig.cold.files[name] = data  # too late: events were refused meanwhile
    for late in (store, rig.store(thaws=False)):
        with pytest.raises(SnapshotLost, match=told):
            await late.ledger(UPDATE)


@pytest.mark.parametrize(
    "form", ["a later format", "a head of other fields", "packed otherwise", "a stub of another form"]
)
async def test_a_snapshot_that_a_newer_version_wrote_is_left_as_it_is(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """An update that is taken back, or half done: the older process finds what the newer one has frozen."""
    await rig.fill()
    with monkeypatch.context() as newer:
        if form == "a later format":
            newer.setattr(snapshot, "FORMAT", snapshot.FORMAT + 1)
        elif form == "a head of other fields":
            newer.setattr(Snapshot, "pack", lambda _: ZstdCompressor().compress(b"\0\0\0\x02{}"))
        elif form == "packed otherwise":
            newer.setattr(Snapshot, "pack", lambda self: b"br" + orjson.dumps(self.key))
        assert await rig.freeze() == 1
    if form == "a stub of another form":
        await rig.client.append(rig.keys.stub(KEY), ":v2")
    stub, files = await rig.client.get(rig.keys.stub(KEY)), dict(rig.cold.files)
    for older in (rig.store(), rig.store(thaws=False)):
        with pytest.raises(NewerVersion, match="update this process"):
            await older.ledger(UPDATE)
        with pytest.raises(NewerVersion):
            await older.cold_applied(INTAKE)
        older.cold.give_up(KEY)  # as `eunoe repair` does with one that is lost
        with pytest.raises(NewerVersion):
            await older.ledger(INTAKE)
    await rig.freeze()
    assert (await rig.client.get(rig.keys.stub(KEY)), rig.cold.files) == (stub, files)


async def test_a_lost_conversation_is_held_until_what_was_derived_again_takes_its_place(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    store, transplants = rig.store(), RedisTransplants(rig.store(), rig.client, rig.keys)
    derived = StoredConversation({"intake": Ledger(7)}, {("intake", "head"): {"head": "{}"}}, {})
    assert not await transplants.swap(KEY, TABLES, derived, Ledger()), "it is cold, and not lost"
    rig.cold.files.pop(*rig.snapshots)
    store.cold.give_up(KEY)
    ledger = await store.ledger(INTAKE)
    assert ledger == replace(Ledger(), server=ledger.server)
    assert await store.scan("update", KEY, "memories") == {}
    assert await store.fetch("update", KEY, "memories", ["m0"]) == [None]
    assert await store.commit(INTAKE, Commit(expect=0, applied=8, server=ledger.server)) is None
    for other in (rig.store(), rig.store(thaws=False)):  # as who is killed before the swap leaves it
        with pytest.raises(SnapshotLost):
            await other.ledger(INTAKE)
    assert await transplants.swap(KEY, TABLES, derived, Ledger())
    assert (await rig.store().ledger(INTAKE)).applied == 7


async def test_a_reader_leaves_it_open_whether_a_snapshot_is_lost(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    data = rig.cold.files.pop(name)
    with pytest.raises(SnapshotLost, match="lacks it"):
        await rig.store(thaws=False).ledger(UPDATE)
    rig.cold.files[name] = data
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert await rig.contents() == before


async def test_another_store_is_waited_for_like_one_that_is_away(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    files, rig.cold.files = rig.cold.files, {}  # as an empty folder where a disk is not mounted
    with pytest.raises(Unavailable, match="not the one that conversations of") as met:
        await rig.store().ledger(UPDATE)
    assert not isinstance(met.value, SnapshotLost)
    with pytest.raises(Unavailable, match=f"EUNOE_GENERATION={rig.keys.generation} eunoe cold adopt"):
        await rig.freezer().mark.ensure()
    assert rig.cold.files == {}
    rig.cold.files = files
    await rig.freezer().mark.ensure()
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert await rig.contents() == before


async def test_a_store_that_was_adopted_tells_what_is_lost(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    rig.cold.files = {}
    await rig.freezer().mark.adopt()
    with pytest.raises(SnapshotLost, match="lacks it"):
        await rig.store().ledger(UPDATE)


async def test_what_killed_processes_left_is_cleaned_up(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    folder = name.rpartition("/")[0]
    await rig.cold.put(f"{folder}/{'0' * 32}-00000000", b"killed before the stub was set")
    await rig.store().cold.clean(KEY)
    assert list(rig.snapshots) == [name]
    await rig.cold.put(f"{folder}/{'0' * 32}-00000000", b"killed before the stub was set")
    await rig.store().ledger(UPDATE)
    assert await rig.freeze() == 1
    assert len(rig.snapshots) == 1


async def test_snapshots_in_a_store_that_is_not_this_one_are_not_taken_for_deleted(rig: Rig) -> None:
    await rig.fill()
    await RedisStore(rig.client, rig.keys).cold.clean(KEY)  # nothing has gone to a cold store yet
    assert await rig.freeze() == 1
    await rig.store().ledger(UPDATE)
    with pytest.raises(Unavailable, match="set EUNOE_COLD__STORE as it was"):
        await RedisStore(rig.client, rig.keys).cold.clean(KEY)
    other = RedisStore(rig.client, rig.keys, cold=ColdAccess(MemoryColdStore(), thaws=True))
    with pytest.raises(Unavailable, match="not the one"):
        await other.cold.clean(KEY)
    await rig.erase()
    await rig.store().cold.clean(KEY)
    assert rig.snapshots == {}


async def test_an_erasure_withdraws_a_snapshot_that_is_being_taken(rig: Rig) -> None:
    await rig.fill()

    @dataclass
    class Telling(Away):
        async def put(self, name: str, data: bytes) -> None:
            await super().put(name, data)
            if not name.startswith("store-", name.rfind("/") + 1):
                await rig.erase()
                await rig.store().cold.clean(KEY)
                assert rig.snapshots == {}
                raise Unavailable("killed", "the cold store")

    rig.cold = Telling()
    freezer = rig.freezer()
    await freezer.mark.ensure()
    with pytest.raises(Unavailable, match="killed"):
        await freezer.freeze(KEY, PARTITION, "")
    assert rig.snapshots == {}
    assert await rig.store().scan("update", KEY, "memories") == {}


async def test_what_was_read_before_an_erasure_is_not_written_after_it(rig: Rig) -> None:
    await rig.fill()
    freezer = rig.freezer()
    await freezer.mark.ensure()
    run = freezer._redis.run

    async def overtaken(script: Script, *words: Any) -> Any:
        if script.name == "announce":
            await rig.erase()
        return await run(script, *words)

    freezer._redis.run = overtaken
    rig.cold.puts.clear()
    assert not await freezer.freeze(KEY, PARTITION, "")
    assert rig.cold.puts == []
    assert not await rig.client.exists(rig.keys.freezing(KEY))


async def test_a_snapshot_that_is_taken_after_an_erasure_is_not_cleaned_away(rig: Rig) -> None:
    await rig.fill()
    await rig.erase()

    @dataclass
    class Telling(Away):
        async def put(self, name: str, data: bytes) -> None:
            await super().put(name, data)
            await super().put(f"{name}.partfeed", b"half of it")
            await rig.store().cold.clean(KEY)

    rig.cold = Telling()
    freezer = rig.freezer()
    await freezer.mark.adopt()
    assert await freezer.freeze(KEY, PARTITION, "")
    assert (await rig.store().ledger(INTAKE)).applied == 7


async def test_a_snapshot_that_was_brought_back_outlives_cleaning_but_no_erasure(rig: Rig) -> None:
    await rig.fill()
    before = await rig.contents()
    assert await rig.freeze() == 1
    stub = await rig.client.get(rig.keys.stub(KEY))
    assert (await rig.store().ledger(UPDATE)).applied == 1
    await rig.store().cold.clean(KEY)
    # the server loses its last writes: the conversation is cold again
    await rig.client.delete(*await rig.names())
    await rig.client.set(rig.keys.stub(KEY), stub)
    assert (await rig.store().ledger(UPDATE)).applied == 1
    assert await rig.contents() == before
    await rig.erase()
    await rig.store().cold.clean(KEY)
    assert rig.snapshots == {}


async def test_a_snapshot_tells_nothing_without_its_key(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    assert "acme" not in name
    if rig.data_keys is None:
        return
    await rig.made.destroy((await rig.made.current(KEY)).id, Destruction.ERASED)
    later = RedisStore(rig.client, rig.keys, data_keys=CachedKeys(rig.made), cold=ColdAccess(rig.cold, thaws=False))
    assert await later.scan("update", KEY, "memories") == {}


async def test_what_comes_late_into_the_store_is_deleted_at_the_second_look(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    data = rig.snapshots[name]
    assert (await rig.store().ledger(UPDATE)).applied == 1
    await rig.erase()
    snapshots, now = rig.erased_snapshots(), time()
    assert 1_000 * LATE_S > ANNOUNCED_MS + 2_000 * TIMEOUT_S
    await snapshots.clean(KEY, now)
    assert rig.snapshots == {}
    await rig.cold.put(name, data)  # as an object store that has the request of a process which was killed
    await rig.cold.put(f"{name}.partfeed", data)
    await snapshots.sweep(now + LATE_S - 1)
    await rig.freezer().sweep([])
    assert len(rig.snapshots) == 2
    rig.cold.away = True
    with pytest.raises(Unavailable, match="is away"):
        await snapshots.sweep(now + LATE_S + 1)
    rig.cold.away = False
    await snapshots.sweep(now + LATE_S + 1)
    assert rig.snapshots == {}
    assert not await rig.client.exists(rig.keys.to_clean())


async def test_the_second_look_leaves_what_was_frozen_and_brought_back_since(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    assert (await rig.store().ledger(UPDATE)).applied == 1
    await rig.erase()
    await rig.erased_snapshots().clean(KEY, time() - LATE_S)
    assert await rig.freezer().freeze(KEY, PARTITION, "")
    stub = await rig.client.get(rig.keys.stub(KEY))
    assert (await rig.store().ledger(INTAKE)).applied == 7
    await rig.freezer().sweep([])
    assert not await rig.client.exists(rig.keys.to_clean())
    await rig.client.delete(*await rig.names())
    await rig.client.set(rig.keys.stub(KEY), stub)
    assert (await rig.store().ledger(INTAKE)).applied == 7


async def test_the_second_look_comes_in_generations_without_workers(rig: Rig) -> None:
    other = replace(rig, keys=replace(rig.keys, generation="without-workers"))
    book = RedisGenerations(rig.client, rig.keys.prefix)
    made = Generation(name=other.keys.generation, state=GenerationState.BUILT, made_at=LONG_AGO, source="v1")
    await book.write(made)
    try:
        await other.freezer().mark.ensure()
        await other.erased_snapshots().clean(KEY, time() - LATE_S)
        await rig.cold.put(f"{folder_of(other.keys, KEY)}/{'0' * 32}-00000000", b"late")
        rig.cold.away = True
        with pytest.raises(Unavailable, match="is away"):
            await rig.freezer().sweep([])
        rig.cold.away = False
        await rig.freezer().sweep([])
        assert rig.snapshots == {}
        assert not await rig.client.exists(other.keys.to_clean())
    finally:
        await book.forget(made.name)
        await forget_generation(rig.client, other.keys)


async def test_an_erasure_during_the_second_look_gets_one_of_its_own(rig: Rig) -> None:
    await rig.freezer().mark.ensure()
    snapshots, now = rig.erased_snapshots(), time()
    await snapshots.clean(KEY, now)
    clean = snapshots.cold.clean

    async def overtaken(key: str) -> None:
        await clean(key)
        await rig.erased_snapshots().clean(KEY, now + LATE_S)

    snapshots.cold.clean = overtaken
    await snapshots.sweep(now + LATE_S)
    assert await rig.client.zcard(rig.keys.to_clean()) == 1


async def test_no_look_is_noted_without_a_cold_store_to_which_anything_went(rig: Rig) -> None:
    redis = RedisConnection(rig.client)
    storeless = ErasedSnapshots(redis, rig.keys, RedisStore(rig.client, rig.keys).cold)
    await storeless.clean(KEY, time())
    assert not await rig.client.exists(rig.keys.to_clean())
    await rig.freezer().mark.ensure()
    with pytest.raises(Unavailable, match="set EUNOE_COLD__STORE as it was"):
        await storeless.clean(KEY, time())
    assert await rig.client.exists(rig.keys.to_clean())


async def test_an_erasure_finds_the_snapshots_of_a_redis_that_was_lost(rig: Rig) -> None:
    await rig.fill()
    assert await rig.freeze() == 1
    (name,) = rig.snapshots
    data = rig.snapshots[name]
    await forget_generation(rig.client, rig.keys)  # its mark, too
    assert await rig.store().cold.unnamed(KEY) == [name]
    now = time()
    await rig.erased_snapshots().clean(KEY, now)
    assert rig.snapshots == {}
    await rig.cold.put(name, data)  # by a process that was stopped since before
    await rig.erased_snapshots().sweep(now + LATE_S)
    assert rig.snapshots == {}


async def test_a_store_that_stays_unwritable_is_asked_by_every_sweep(rig: Rig) -> None:
    """Else a sweep between two refusals succeeds, and the log says that the store answers again."""
    await rig.fill()
    freezer = rig.freezer()
    await freezer.sweep([PARTITION])
    freezer.settle_s = 3_600.0  # what it looks at anew is not due
    freezer._watched[KEY] = replace(freezer._watched[KEY], since=-3_600.0)
    await freezer.mark.ensure()
    rig.cold.full = True
    for _ in range(3):
        with pytest.raises(Unavailable, match="the cold store is full"):
            await freezer.sweep([PARTITION])
    rig.cold.full = False
    assert await freezer.sweep([PARTITION]) == 1


async def test_a_sweep_that_fails_at_one_conversation_ends_when_all_have(rig: Rig) -> None:
    ended = []

    class Uneven(Freezer):
        async def freeze(self, key: str, partition: int, timer: str, applied: bytes | None = None) -> bool:
            if key == "acme/fails":
                raise Unavailable("the cold store is away", "the cold store")
            await asyncio.sleep(0.05)
            ended.append(key)
            return True

    freezer = Uneven(rig.client, rig.keys, rig.cold, TABLES, after_s=86_400, settle_s=0.0)
    for key in ("acme/fails", "acme/a", "acme/b"):
        freezer._watched[key] = _Watched(PARTITION, "", b"7", 0.0)
    with pytest.raises(Unavailable, match="is away"):
        await freezer.sweep([PARTITION])
    assert ended == ["acme/a", "acme/b"], "nothing of it goes on beside the next sweep"
