"""Any sequence of calls leaves the store in memory and Redis alike."""

import random

import pytest

from eunoe.schemas.decisions import Clear, Commit, Drop, Outbox, Put, Scope, Write
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore

Store = MemoryStore | RedisStore
SCOPES = [Scope("update", "acme/c1"), Scope("update", "acme/c1", "r1"), Scope("link", "acme/c1")]


def _write(r: random.Random) -> Write:
    table, id_ = r.choice("tu"), r.choice("abc")
    put = Put(table=table, id=id_, text=str(r.random()))
    writes: list[Write] = [put, Drop(table=table, id=id_), Clear(table=table)]
    return r.choices(writes, [6, 2, 1])[0]


async def _step(store: Store, r: random.Random) -> object:
    scope, number, kind = r.choice(SCOPES), r.randint(0, 5), r.random()
    if kind < 0.3:
        return await store.park(scope, number, r.choice("xy"), str(r.random()))
    if kind < 0.5:
        await store.mark_sent(scope, number)
        return None
    ledger = await store.ledger(scope)
    applied = ledger.applied
    commit = Commit(
        expect=r.choice([applied, applied, number]),
        applied=applied + 1,
        writes=tuple(_write(r) for _ in range(r.randint(0, 5))),
        outbox=r.choice([None, None, Outbox(number=applied + 1, partition=number)]),
        skip=r.random() < 0.3,
        unpark=r.choice([None, applied + 1]),
        after=r.choice([None, None, ledger.token, ledger.token, "of another one"]),
    )
    return await store.commit(scope, commit) is not None


async def _all(store: Store) -> list[object]:
    ledgers = [await store.ledger(scope) for scope in SCOPES]
    tables = [await store.scan(stage, "acme/c1", table) for stage in ("update", "link") for table in "tu"]
    numbers = [await store.parked_numbers(scope) for scope in SCOPES]
    parked = [await store.parked(scope, number) for scope in SCOPES for number in range(8)]
    return [ledgers, tables, numbers, parked]


@pytest.mark.parametrize("seed", range(4))
async def test_the_store_in_memory_does_what_redis_does(redis: RedisClient | None, keys: Keys, seed: int) -> None:
    real = MemoryStore() if redis is None else RedisStore(redis, keys)
    memory = MemoryStore()
    here, there = random.Random(seed), random.Random(seed)
    for _ in range(120):
        assert await _step(memory, here) == await _step(real, there)
    assert await _all(memory) == await _all(real)
