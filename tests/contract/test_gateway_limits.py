"""The limiter and the notes of the gateway on Redis."""

import asyncio

import pytest

from eunoe.deploy.gateway.limits import Rate, RedisLimiter
from eunoe.deploy.gateway.redis import RedisNotes
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys, note_key

pytestmark = pytest.mark.parametrize("redis", ["redis", "cluster"], indirect=True)


async def test_all_replicas_share_one_limit(redis: RedisClient, keys: Keys) -> None:
    replicas = [RedisLimiter(redis, keys.prefix) for _ in range(3)]
    rate = Rate(0.001, 10)  # none of the 15 is admitted because time has passed
    waits = await asyncio.gather(*(replicas[n % 3].wait_s(keys.generation, rate, 1) for n in range(15)))
    refused = [wait for wait in waits if wait]
    assert len(refused) == 5
    assert all(0 < wait <= 1000 for wait in refused)
    assert await replicas[0].wait_s(f"{keys.generation}/2", rate, 2.5) == 0


async def test_a_request_is_admitted_after_the_wait_that_was_named(redis: RedisClient, keys: Keys) -> None:
    limiter, rate = RedisLimiter(redis, keys.prefix), Rate(20, 1)
    while not (wait := await limiter.wait_s(keys.generation, rate, 1)):
        pass  # one that comes late is admitted, too
    assert 0 < wait <= 0.05
    await asyncio.sleep(wait)
    assert await limiter.wait_s(keys.generation, rate, 1) == 0


async def test_requests_far_from_the_limit_are_counted_for_all_replicas_without_a_wait(
    redis: RedisClient, keys: Keys
) -> None:
    one, other = (RedisLimiter(redis, keys.prefix) for _ in range(2))
    rate = Rate(0.001, 200)
    assert [await one.wait_s(keys.generation, rate, 1) for _ in range(120)] == [0] * 120
    while (counting := one._counts[keys.generation].counting) is not None:
        await counting
    waits = [await other.wait_s(keys.generation, rate, 1) for _ in range(81)]
    while (counting := other._counts[keys.generation].counting) is not None:
        await counting
    assert [wait > 0 for wait in waits] == [False] * 80 + [True]
    assert await one.wait_s(keys.generation, rate, 1) > 0


async def test_a_note_is_claimed_once(redis: RedisClient, keys: Keys) -> None:
    notes, name = RedisNotes(redis), note_key(keys.prefix, f"acme/{keys.generation}", "ask", "r:1")
    found = await asyncio.gather(*(notes.claim(name, str(n), 60) for n in range(10)))
    (winner,) = [n for n, before in enumerate(found) if before is None]
    assert {before for before in found if before is not None} == {str(winner)}
    await notes.write(name, "later", 60)
    assert await notes.read(name) == "later"
    assert await notes.read(note_key(keys.prefix, "acme/c", "ask", "r:2")) is None
