"""The registry of generations, in memory and on Redis: which are there, and which answers."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.workers.stores.generations import (
    Generation,
    Generations,
    GenerationState,
    MemoryGenerations,
    Pointer,
    RedisGenerations,
    listed,
)
from eunoe.workers.stores.keys import generations_key, pointer_key

V2 = Generation(name="v2", state=GenerationState.BUILT, made_at=datetime(2026, 1, 1, tzinfo=UTC), source="v1")


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.broker)])
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[Generations]:
    if request.param == "memory":
        yield MemoryGenerations()
        return
    prefix = f"test-{secrets.token_hex(4)}"
    async with open_redis_url(request.getfixturevalue("redis_url")) as client:
        yield RedisGenerations(client, prefix)
        await client.delete(generations_key(prefix))
        await client.delete(pointer_key(prefix))


async def test_a_first_generation_that_was_dropped_is_listed_no_more(registry: Generations) -> None:
    assert await registry.begin("v1") == Pointer("v1", "v1")
    await registry.write(V2)
    await registry.promote("v2")
    assert [(one.name, one.is_live) for one in await listed(registry)] == [("v1", False), ("v2", True)]
    await registry.forget("v1")
    assert [(one.name, one.is_live) for one in await listed(registry)] == [("v2", True)]


async def test_another_one_that_was_dropped_leaves_the_first(registry: Generations) -> None:
    await registry.begin("v1")
    await registry.write(V2)
    await registry.forget("v2")
    assert [one.name for one in await listed(registry)] == ["v1"]
    assert await registry.pointer() == Pointer("v1", "v1")
