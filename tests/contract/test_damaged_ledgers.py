"""Ledgers in Redis that another hand has changed: a repair replaces them, and nothing is decided on them until then."""

import time
from collections.abc import AsyncIterator

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Commit, Ledger, Outbox, OutMessage, Put, Scope
from eunoe.schemas.errors import StateDamaged
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.damaged_ledgers import ledger_to_replace
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants

pytestmark = pytest.mark.broker

KEY = "acme/c1"
INTAKE, UPDATE = Scope("intake", KEY), Scope("update", KEY)
TABLES = {"intake": ["head"], "update": ["memories"]}
DERIVED = StoredConversation(
    {"intake": Ledger(applied=7), "update": Ledger(applied=2)}, {("update", "memories"): {"m1": "1"}}, {}
)


@pytest.fixture
async def client(redis_url: str, keys: Keys) -> AsyncIterator[RedisClient]:
    async with open_redis_url(redis_url) as redis:
        yield redis
        await forget_generation(redis, keys)


@pytest.fixture
def store(client: RedisClient, keys: Keys) -> RedisStore:
    return RedisStore(client, keys)


@pytest.mark.parametrize("scope", [INTAKE, UPDATE])
@pytest.mark.parametrize("field", ["applied", "lates", "skipped/x", "outbox/2", "outbox"])
async def test_a_repair_replaces_it(
    client: RedisClient, keys: Keys, store: RedisStore, scope: Scope, field: str
) -> None:
    outbox = Outbox(number=2, messages=(OutMessage(topic="changes", key=KEY, text="1"),))
    for number, unsent in ((1, None), (2, outbox)):
        await store.commit(scope, Commit(expect=number - 1, applied=number, outbox=unsent))
    late = await store.ledger(scope)
    await client.hset(keys.ledger(scope), field, "7x")
    before = int(time.time())
    for _ in range(2):  # the repair is killed, and repeated
        live = {stage: await ledger_to_replace(store, client, keys, Scope(stage, KEY)) for stage in TABLES}
        assert (live[scope.stage].applied, live[scope.stage].outbox) == (0, None)
        assert live[scope.stage].lates >= before, "ahead of those that an erasure has refused points by"
        with pytest.raises(StateDamaged, match="run `eunoe repair`"):
            await store.ledger(scope)
        with pytest.raises(StateDamaged):
            await store.applied(scope)
    stale = Commit(expect=late.applied, applied=3, after=late.token, writes=(Put("memories", "m2", "2"),))
    assert await store.commit(scope, stale) is None
    assert await store.commit(scope, Commit(expect=0, applied=1, after="")) is None
    transplants = RedisTransplants(store, client, keys)
    assert await transplants.swap(KEY, TABLES, DERIVED, live["intake"], live)
    assert ((await store.ledger(INTAKE)).applied, (await store.ledger(UPDATE)).applied) == (7, 2)
    assert await store.scan("update", KEY, "memories") == {"m1": "1"}
    assert await store.commit(scope, stale) is None


async def test_a_whole_one_is_left_as_it_is(client: RedisClient, keys: Keys, store: RedisStore) -> None:
    await store.commit(UPDATE, Commit(expect=0, applied=1))
    before = await store.ledger(UPDATE)
    assert await ledger_to_replace(store, client, keys, UPDATE) == before
    assert await store.ledger(UPDATE) == before
    assert await ledger_to_replace(store, client, keys, INTAKE) == Ledger()
    assert not await client.exists(keys.ledger(INTAKE))


async def test_one_that_was_mended_since_it_was_read_is_left_as_it_is(
    client: RedisClient, keys: Keys, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit(UPDATE, Commit(expect=0, applied=1))
    await client.hset(keys.ledger(UPDATE), "applied", "7x")
    read = store.ledger

    async def mended_behind_it(scope: Scope) -> Ledger:
        try:
            return await read(scope)
        finally:
            await client.hset(keys.ledger(UPDATE), "applied", "1")

    monkeypatch.setattr(store, "ledger", mended_behind_it)
    assert (await ledger_to_replace(store, client, keys, UPDATE)).applied == 1
