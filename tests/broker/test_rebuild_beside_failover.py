"""A rebuild during which Redis loses what was written, as by a failover."""

from typing import Any

import pytest

from eunoe.deploy.clients.live_settings import of_generation
from eunoe.deploy.clients.shared import open_redis, store_keys
from eunoe.deploy.generations.rebuild import run as rebuilds
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.progress import ProgressLine
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisConnection
from tests.broker.test_erase import digest, sessions
from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

NAMES = ("mine", "other")


async def test_what_redis_lost_meanwhile_is_derived_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made, passes = rebuilds._derive, list[ProgressLine]()
    target = of_generation(pipeline.settings, "v2", {})

    async def lost_once(*given: Any) -> ProgressLine:
        passes.append(await made(*given))
        if len(passes) == 1:
            async with open_redis(target) as redis:
                assert await forget_generation(redis, store_keys(target))
        return passes[-1]

    async def processes(_connection: RedisConnection) -> frozenset[str]:
        return frozenset([f"after {min(len(passes), 1)}"])

    for name, value in pipeline.variables.items():  # its processes have the environment of this one
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rebuilds, "_derive", lost_once)
    async with pipeline.up():
        await pipeline.produce(*(event for name in NAMES for event in sessions(name)))
        for name in NAMES:
            await pipeline.remembered(2, name)
    monkeypatch.setattr(RedisConnection, "processes", processes)
    await rebuilds.rebuild(pipeline.settings, RebuildPlan("v2", workers=1), lambda _: None)
    assert [(one.conversations, one.kept) for one in passes] == [(2, 0), (2, 0)]
    assert "Redis was restarted or replaced" in caplog.text
    for name in NAMES:
        assert (await digest(target, name)).sha256 == (await digest(pipeline.settings, name)).sha256
