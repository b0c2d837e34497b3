"""A rebuild derives again what Redis may have lost meanwhile, and ends with the generation that it began."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from eunoe.deploy.generations.rebuild import begun, run
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Misconfigured, Refused
from eunoe.streams.admin import TopicStatus
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.stores.records.generations import Generation, GenerationState
from tests.support.memory.generations import MemoryGenerations


@pytest.mark.parametrize(("servers", "passes"), [(["a", "a"], 1), (["ab", "ac", "dc", "dc"], 3)])
async def test_it_derives_until_redis_is_the_same_from_begin_to_end(
    servers: list[str], passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, made = iter(servers), 0

    async def processes(_settings: Settings) -> frozenset[str]:
        return frozenset(next(told))

    async def derive() -> int:
        nonlocal made
        made += 1
        return made

    monkeypatch.setattr(run, "redis_processes", processes)
    assert await run.until_kept(Settings(), derive) == passes
    assert next(told, None) is None


BEGUN = Generation(
    name="v2", state=GenerationState.BUILDING, made_at=datetime(2026, 3, 1, 9, 0, 0, 123_456, tzinfo=UTC), source="v1"
)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        pytest.param(None, "was dropped", id="dropped"),
        pytest.param(BEGUN.model_copy(update={"made_at": BEGUN.made_at + timedelta(hours=1)}), "dropped", id="anew"),
        pytest.param(BEGUN.model_copy(update={"state": GenerationState.BUILT}), "was completed", id="completed"),
        pytest.param(BEGUN, None, id="as it was begun"),
    ],
)
async def test_a_generation_that_another_machine_dropped_or_completed_is_not_told_to_be_built(
    now: Generation | None, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = MemoryGenerations()
    if now is not None:
        await registry.write(Generation.from_json(now.model_dump_json()))
    before = await registry.all()

    @asynccontextmanager
    async def redis(_settings: Settings) -> AsyncIterator[None]:
        yield None

    monkeypatch.setattr(run, "open_redis", redis)
    monkeypatch.setattr(run, "RedisGenerations", lambda *_: registry)
    if told is None:
        await run._complete(Settings(), BEGUN, GenerationState.BUILT)
        assert [one.state for one in await registry.all()] == [GenerationState.BUILT]
        return
    with pytest.raises(Refused, match=told):
        await run._complete(Settings(), BEGUN, GenerationState.BUILT)
    assert await registry.all() == before


async def test_a_user_who_may_not_ask_redis_whether_it_restarted_begins_no_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fits(*_: object) -> list[int]:
        return [1]

    async def forbidden(_: Settings) -> frozenset[str]:
        raise Misconfigured("no permissions to run the 'info' command", "Redis")

    async def begin(*_: object) -> Generation:
        raise AssertionError("a generation was begun")

    for name in ("partitions_of", "check_log_is_open", "check_named"):
        monkeypatch.setattr(run, name, fits)
    monkeypatch.setattr(run, "redis_processes", forbidden)
    monkeypatch.setattr(run, "_begin", begin)
    with pytest.raises(Misconfigured, match="info"):
        await run.rebuild(Settings(kafka="127.0.0.1:9092"), RebuildPlan(into="v2"), lambda _: None)


@pytest.mark.parametrize(("made", "left"), [(0, []), (2, ["v2"])], ids=["no topic", "one topic"])
@pytest.mark.parametrize("log", [0, 1], ids=["same log", "log with other partitions"])
async def test_a_generation_of_which_all_topics_are_refused_is_not_left_as_being_built(
    log: int, made: int, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, settings = MemoryGenerations(), Settings(kafka="127.0.0.1:9092")
    target = settings.model_copy(update={"generation": BEGUN.name, "log": log})
    await registry.write(BEGUN)

    async def refused(*_: object) -> None:
        raise Refused("topic not created (grant Create)")

    async def topics(_: object, names: TopicNames) -> list[TopicStatus]:
        numbers = {Topic.CONVERSATIONS: 0 if names.log else 2, Topic.REPLIES: 2, Topic.CHANGES: made}
        return [TopicStatus(topic, names.name(topic), number, "") for topic, number in numbers.items()]

    @asynccontextmanager
    async def redis(_settings: Settings) -> AsyncIterator[None]:
        yield None

    fakes = {"create_topics": refused, "list_topics": topics, "open_redis": redis}
    for name, fake in fakes.items():
        monkeypatch.setattr(begun, name, fake)
    monkeypatch.setattr(begun, "RedisGenerations", lambda *_: registry)
    with pytest.raises(Refused, match="grant Create"):
        await begun.make_topics(settings, target, 2)
    assert [one.name for one in await registry.all()] == left


async def test_a_rebuild_makes_its_topics_when_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what forgets it where Kafka refuses all of them."""
    registry = MemoryGenerations()

    async def fits(*_: object) -> list[int]:
        return [2]

    async def begin(*_: object) -> Generation:
        await registry.write(BEGUN)
        return BEGUN

    async def refused(_: Settings, target: Settings, partitions: int) -> None:
        assert (await registry.find(target.generation), partitions) == (BEGUN, 2)
        raise Refused("topic not created (grant Create)")

    for name in ("partitions_of", "check_log_is_open", "check_named", "redis_processes"):
        monkeypatch.setattr(run, name, fits)
    monkeypatch.setattr(run, "_begin", begin)
    monkeypatch.setattr(run, "make_topics", refused)
    with pytest.raises(Refused, match="grant Create"):
        await run.rebuild(Settings(kafka="127.0.0.1:9092"), RebuildPlan(into="v2"), lambda _: None)
