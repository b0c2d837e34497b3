"""The registry of generations, in memory and on Redis: which are there, and which answers."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest

from eunoe.deploy.clients.live_settings import settings_in
from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.generations.promotion import check_droppable, check_next, promote
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import NewerVersion, Refused
from eunoe.workers.stores.records.generations import (
    Generation,
    GenerationState,
    Pointer,
    RedisGenerations,
    listed,
)
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import generations_key, pointer_key
from tests.support.memory.generations import MemoryGenerations

Registry = RedisGenerations | MemoryGenerations
V2 = Generation(name="v2", state=GenerationState.BUILT, made_at=datetime(2026, 1, 1, tzinfo=UTC), source="v1")


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.broker)])
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[Registry]:
    if request.param == "memory":
        yield MemoryGenerations()
        return
    prefix = f"test-{secrets.token_hex(4)}"
    async with open_redis_url(request.getfixturevalue("redis_url")) as client:
        yield RedisGenerations(client, prefix)
        await client.delete(generations_key(prefix))
        await client.delete(pointer_key(prefix))


async def test_a_first_generation_that_was_dropped_is_listed_no_more(
    registry: Registry,
) -> None:
    assert await registry.begin("v1") == Pointer("v1", "v1")
    await registry.write(V2)
    await registry.promote("v2")
    assert [(one.name, one.is_live) for one in await listed(registry)] == [("v1", False), ("v2", True)]
    await registry.forget("v1")
    assert [(one.name, one.is_live) for one in await listed(registry)] == [("v2", True)]


async def test_another_one_that_was_dropped_leaves_the_first(registry: Registry) -> None:
    await registry.begin("v1")
    await registry.write(V2)
    await registry.forget("v2")
    assert [one.name for one in await listed(registry)] == ["v1"]
    assert await registry.pointer() == Pointer("v1", "v1")


async def _written_by_a_newer_version(client: RedisClient, prefix: str, **fields: str) -> None:
    document = {**json.loads(V2.to_json()), **fields}
    await client.hset(generations_key(prefix), V2.name, json.dumps(document))


@pytest.mark.broker
async def test_one_that_a_newer_version_made_stops_nobody_else(redis_url: str):
    prefix = f"test-{secrets.token_hex(4)}"
    async with open_redis_url(redis_url) as client, AsyncExitStack() as closing:
        closing.push_async_callback(client.delete, generations_key(prefix), pointer_key(prefix))
        registry = RedisGenerations(client, prefix)
        await registry.begin("v1")
        await _written_by_a_newer_version(client, prefix, colour="red")
        settings = Settings(redis_url=redis_url, prefix=prefix)
        assert [(one.name, one.made) for one in await listed(registry)] == [("v1", None), ("v2", V2)]
        assert (await settings_in(registry, settings)).generation == "v1"
        for of_it in (registry.find("v2"), settings_in(registry, settings.model_copy(update={"generation": "v2"}))):
            with pytest.raises(NewerVersion, match=r"newer version of eunoe made generation v2: update.*colour"):
                await of_it


@pytest.mark.broker
async def test_a_state_that_is_not_known_is_told_of_all(redis_url: str):
    prefix = f"test-{secrets.token_hex(4)}"
    async with open_redis_url(redis_url) as client, AsyncExitStack() as closing:
        closing.push_async_callback(client.delete, generations_key(prefix))
        await _written_by_a_newer_version(client, prefix, state="asleep")
        with pytest.raises(NewerVersion, match="generation v2"):
            await listed(RedisGenerations(client, prefix))


async def test_settings_of_a_newer_version_are_told_with_the_generation_that_has_them(
    registry: Registry,
):
    await registry.write(V2.model_copy(update={"changes": {"link.mood": "5"}}))
    with pytest.raises(Refused, match=r"generation v2 was built with link\.mood=5.* version.*eunoe promote"):
        await settings_in(registry, Settings(generation="v2"))


async def test_a_promotion_that_began_is_noted_until_one_ends(registry: Registry) -> None:
    await registry.begin("v1")
    await registry.write(V2)
    await registry.begin_promotion("v2")
    assert await registry.pointer() == Pointer("v1", "v1", "v2")
    await registry.begin_promotion("v1")  # to undo it: the log may name v2 for as long as that has not ended
    assert [(one.name, one.is_live, one.is_promoting) for one in await listed(registry)] == [
        ("v1", True, False),
        ("v2", False, True),
    ]
    await registry.promote("v1")
    assert await registry.pointer() == Pointer("v1", "v1")
    await registry.begin_promotion("v2")
    await registry.promote("v2")
    assert [(one.name, one.is_live, one.is_promoting) for one in await listed(registry)] == [
        ("v1", False, False),
        ("v2", True, False),
    ]


@pytest.mark.broker
async def test_a_generation_whose_promotion_was_interrupted_cannot_be_dropped(redis_url: str) -> None:
    settings = Settings(redis_url=redis_url, prefix=f"test-{secrets.token_hex(4)}")
    async with open_redis_url(redis_url) as client:
        registry = RedisGenerations(client, settings.prefix)
        await registry.begin("v1")
        await registry.write(V2)
        await check_droppable(settings, "v2")
        await registry.begin_promotion("v2")
        told = r"the promotion of v2 was interrupted.* `eunoe promote v2` completes it, `eunoe promote v1` undoes it"
        with pytest.raises(Refused, match=told):
            await check_droppable(settings, "v2")
        await registry.promote("v1")
        await check_droppable(settings, "v2")
        await client.delete(generations_key(settings.prefix), pointer_key(settings.prefix))


@pytest.mark.broker
async def test_no_generation_is_promoted_while_another_one_takes_over_the_log(redis_url: str) -> None:
    settings = Settings(redis_url=redis_url, prefix=f"test-{secrets.token_hex(4)}")
    async with open_redis_url(redis_url) as client:
        registry = RedisGenerations(client, settings.prefix)
        await registry.begin("v1")
        await registry.write(V2)
        moving = {"name": "v3", "state": GenerationState.MOVING, "log": 1, "plan": {"partitions": "24"}}
        await registry.write(V2.model_copy(update=moving))
        with pytest.raises(Refused, match=r"v3 is taking over the log: finish `eunoe topics repartition 24` first"):
            await promote(settings, "v2", lambda _left: None)
        await client.delete(generations_key(settings.prefix), pointer_key(settings.prefix))


def test_an_interrupted_promotion_is_completed_or_undone_before_another_one() -> None:
    check_next("v2", "v1", None)
    with pytest.raises(Refused, match="v1 is live already"):
        check_next("v1", "v1", None)
    check_next("v2", "v1", "v2")
    check_next("v1", "v1", "v2")
    with pytest.raises(Refused, match="`eunoe promote v2` completes it"):
        check_next("v3", "v1", "v2")
    check_next("v3", "v2", "v2")  # it ended but for its note
    with pytest.raises(Refused, match="v2 is live already"):
        check_next("v2", "v2", "v2")
