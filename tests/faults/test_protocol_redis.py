"""The same schedules on real servers: scripts, two servers that share the slots, and the cold store."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from eunoe.schemas.records import DeadLetterReason
from eunoe.streams.dead_letters import read_dead_letter
from eunoe.streams.topics import Topic
from tests.support.schedule import Faults
from tests.support.schedule_redis import RedisServers
from tests.support.schedule_runs import (
    dead_letters,
    differences,
    proposals,
    remembered,
    requests,
    run,
    undisturbed_run,
)

pytestmark = [pytest.mark.broker, pytest.mark.embedded("starts its servers anew over old copies")]

QUICK_SEEDS = 1
"""Seeds that `make test` runs; the rest are marked `slow`."""
SEEDS = int(os.environ.get("PROTOCOL_REDIS_SEEDS", "6"))
REPEATS = 0.02
"""How often an answer is lost, and its request sent again."""
FREEZING = Faults(freezes=0.003, flow=0.002)
"""People pause, and conversations go to the cold store meanwhile, or while they are busy."""


def _seeds() -> list[object]:
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= QUICK_SEEDS else []) for seed in range(SEEDS)]


@pytest.fixture(scope="module", params=[1, 2], ids=["one server", "two servers"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    with RedisServers(tmp_path_factory.mktemp("schedule"), request.param) as servers:
        yield servers


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread would end when it likes, and not when the schedule says so."""

    async def inline(work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    monkeypatch.setattr(asyncio, "to_thread", inline)


@pytest.mark.parametrize("seed", _seeds())
@pytest.mark.parametrize("beside", [Faults(), FREEZING], ids=["hot", "freezing"])
async def test_crashes_at_each_request_lose_nothing(servers: RedisServers, beside: Faults, seed: int):
    undisturbed = await undisturbed_run(seed)
    async with servers.emptied(seed, REPEATS):
        disturbed = await run(seed, replace(beside, crashes=0.006), servers=servers)
        assert disturbed.crashes > 0
        assert servers.repeated > 0
        assert differences(await remembered(disturbed), undisturbed.remembered) == []
        assert dead_letters(disturbed.log) == 0
        assert requests(disturbed.log) == undisturbed.requests
        assert proposals(disturbed.log) == undisturbed.proposals


@pytest.mark.parametrize("seed", _seeds())
@pytest.mark.parametrize("beside", [Faults(), FREEZING], ids=["hot", "freezing"])
async def test_a_server_that_goes_back_alone_loses_nothing(servers: RedisServers, beside: Faults, seed: int):
    undisturbed = await undisturbed_run(seed)
    async with servers.emptied(seed, REPEATS):
        disturbed = await run(seed, replace(beside, crashes=0.004, rollbacks=0.004), servers=servers)
        assert disturbed.rollbacks > 0
        differing = differences(await remembered(disturbed), undisturbed.remembered)
        # what was answered is not answered again only to write down that it was
        assert [name for name in differing if "respond" not in name] == []
        letters = [read_dead_letter(record)[0] for record in disturbed.log.records(Topic.DEAD_LETTERS)]
        assert {letter.reason for letter in letters} <= {DeadLetterReason.HELD}
        assert requests(disturbed.log, once=False) == undisturbed.requests
        assert proposals(disturbed.log) == undisturbed.proposals


async def test_conversations_that_rest_leave_under_a_schedule_and_come_back(servers: RedisServers):
    async with servers.emptied(1, REPEATS):
        disturbed = await run(1, FREEZING, servers=servers)
        assert servers.frozen > 0
        assert differences(await remembered(disturbed), (await undisturbed_run(1)).remembered) == []
