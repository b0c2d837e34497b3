"""The store on a cluster that loses a node, and behind a sentinel whose master is lost."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.doctor.findings import Findings, Level
from eunoe.deploy.doctor.redis import check_redis
from eunoe.deploy.observability.counters import WorkerMeter
from eunoe.deploy.observability.exposition import metrics_text
from eunoe.deploy.observability.health import HealthState
from eunoe.deploy.observability.metrics import MetricSources
from eunoe.deploy.process.durability import EvictionWatch, warn_of_weak_durability
from eunoe.deploy.settings import Settings
from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisConnection
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from tests.support.valkeys import valkey_cluster, valkey_sentinel

pytestmark = [pytest.mark.broker, pytest.mark.embedded("kills its servers"), pytest.mark.timeout(240)]

KEYS = Keys("several")
CONVERSATIONS = 120
SESSIONS = 12
LOST = "an acknowledged write is not there"


async def _apply(store: RedisStore, conversation: int, tries: list[str]) -> None:
    """Commit the sessions of a conversation one after the other, waiting where the server is away.

    Where a replica took over, the ledger may stand before what was acknowledged: `tries` tells, and it goes on there.
    """
    scope = Scope("segment", f"acme/{conversation}")
    number = 1
    while number <= SESSIONS:
        write = Put(table="t", id=str(number), text=f"{conversation}/{number}")
        try:
            if not await store.commit(scope, Commit(expect=number - 1, applied=number, writes=(write,))):
                tries.append(LOST)
                number = await _next(store, scope, tries)
                continue
        except Unavailable as fault:
            tries.append(str(fault))
            await asyncio.sleep(0.1)
            # whether it was done is not known: the ledger says
            number = await _next(store, scope, tries)
            continue
        number += 1
        await asyncio.sleep(0.01)


async def _next(store: RedisStore, scope: Scope, tries: list[str]) -> int:
    while True:
        try:
            return (await store.ledger(scope)).applied + 1
        except Unavailable as fault:
            tries.append(str(fault))
            await asyncio.sleep(0.1)


async def _check(store: RedisStore) -> None:
    for conversation in range(CONVERSATIONS):
        key = f"acme/{conversation}"
        assert (await store.ledger(Scope("segment", key))).applied == SESSIONS
        kept = await store.scan("segment", key, "t")
        assert kept == {str(number): f"{conversation}/{number}" for number in range(1, SESSIONS + 1)}


async def test_of_a_cluster_each_node_that_breaks_a_promise_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with valkey_cluster(tmp_path) as cluster:
        cluster.be_patient()
        async with open_redis_url(cluster.url) as client:
            await warn_of_weak_durability(client)
            assert caplog.messages == []
            careless = cluster.nodes[2]
            careless.ask("CONFIG", "SET", "appendfsync", "no")
            await warn_of_weak_durability(client)
            (told,) = caplog.messages
            assert f"127.0.0.1:{careless.port}: appendfsync is no" in told


async def test_keys_that_a_node_evicts_are_told_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with valkey_cluster(tmp_path) as cluster:
        cluster.be_patient()
        async with open_redis_url(cluster.url) as client:
            health, full = HealthState(), cluster.nodes[1]
            watch = EvictionWatch(client, health)
            for number in range(50):
                await client.set(f"key{number}", "x" * 10_000)
            await watch.look()
            assert (set(health.evicted.values()), caplog.messages) == ({0}, [])
            full.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            full.ask("CONFIG", "SET", "maxmemory", 1)
            await client.initialize()
            for _ in range(2):  # what was told is not told again
                await watch.look()
            count = health.evicted[f"127.0.0.1:{full.port}"]
            assert 0 < count == sum(health.evicted.values())
            (told,) = caplog.messages
            assert f"127.0.0.1:{full.port}: it has evicted {count} keys" in told
            samples = metrics_text(MetricSources(WorkerMeter(), health)).decode()
            assert f'eunoe_evicted_keys{{server="127.0.0.1:{full.port}"}} {count}.0' in samples


async def test_a_cluster_of_one_node_is_asked_as_a_cluster(tmp_path: Path) -> None:
    """As one server it answers most requests, and refuses those for keys of several slots, such as of positions."""
    with valkey_cluster(tmp_path, size=1) as cluster:
        address = f"127.0.0.1:{cluster.nodes[0].port}"
        as_server = Settings(redis_url=SecretStr(f"redis://{address}/0"))
        with pytest.raises(Misconfigured, match=r"begin EUNOE_REDIS_URL with redis\+cluster://"):
            await check_redis(as_server, Findings("redis"))
        findings = Findings("redis")
        await check_redis(Settings(redis_url=SecretStr(cluster.url)), findings)
        assert Level.FAULT not in {one.level for one in findings.found}
        assert findings.found[-1].text.startswith(f"{address} keeps what it acknowledges")
        async with open_redis_url(cluster.url) as client:
            redis, health = RedisConnection(client), HealthState()
            await redis.check_undivided("eunoe")
            assert len(await redis.processes()) == 1
            await EvictionWatch(client, health).look()
            assert health.evicted == {address: 0}


@pytest.mark.slow
async def test_a_cluster_that_loses_a_node_loses_nothing(tmp_path: Path) -> None:
    with valkey_cluster(tmp_path) as cluster:
        async with open_redis_url(cluster.url) as client:
            store, tries = RedisStore(client, KEYS), list[str]()
            processes = await RedisConnection(client).processes()
            works = [asyncio.create_task(_apply(store, number, tries)) for number in range(CONVERSATIONS)]
            await asyncio.sleep(0)
            while (await store.ledger(Scope("segment", "acme/0"))).applied < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            cluster.nodes[1].kill()
            while not tries:  # noqa: ASYNC110 - until somebody has noticed
                await asyncio.sleep(0.05)
            await asyncio.to_thread(cluster.nodes[1].start)
            await asyncio.gather(*works)
            await _check(store)
            assert LOST not in tries
            now = await RedisConnection(client).processes()
            assert (len(processes), len(now), len(processes & now)) == (3, 3, 2)
            assert await forget_generation(client, KEYS) == 2 * CONVERSATIONS


async def test_a_master_that_is_lost_is_followed_by_its_replica(tmp_path: Path) -> None:
    with valkey_sentinel(tmp_path) as house:
        # with this a write is refused unless a replica takes it; without it a failover could lose acknowledged ones
        house.master.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        async with open_redis_url(house.url) as client:
            store, tries = RedisStore(client, KEYS), list[str]()
            processes = await RedisConnection(client).processes()
            works = [asyncio.create_task(_apply(store, number, tries)) for number in range(CONVERSATIONS)]
            while (await store.ledger(Scope("segment", "acme/0"))).applied < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            house.master.kill()
            await asyncio.gather(*works)
            assert house.moved()
            assert tries
            await _check(store)
            now = await RedisConnection(client).processes()
            assert (len(processes), len(now), len(processes & now)) == (1, 1, 0)
            assert RedisConnection(client).host == f"mymaster of 127.0.0.1:{house.sentinel.port}"
