"""The life of worker processes: servers that are away, rebalances meanwhile, the end, and what they say of it all."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from eunoe.deploy.settings import Settings
from eunoe.streams.admin import create_topics
from eunoe.streams.lag import lag
from eunoe.streams.settings import client_options
from eunoe.streams.topics import Topic
from eunoe.workers.registry import STAGES
from tests.support.command import until
from tests.support.workers import House, house

pytestmark = [
    pytest.mark.broker,
    pytest.mark.embedded("stops and starts its servers"),
    pytest.mark.timeout(300),
]

MANY = 80


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as made:
        yield made


async def lag_of(home: House, stage: str) -> int:
    settings = home.settings
    found = await lag(settings.kafka_settings, settings.names, {stage: STAGES[stage].inputs})
    return found[stage]


async def test_a_server_that_is_away_at_the_start_is_waited_for_and_said_once(home: House):
    assert home.redis is not None
    home.qdrant.kill()
    worker = await home.worker("segment", "compress", ready=False)
    await worker.until_status("live", 200)
    await until(lambda: _says(worker, "waiting for Qdrant"), 60, worker.said)
    status, report = await worker.health("ready")
    assert (status, report["phase"], report["live"]) == (503, "starting", True)
    home.qdrant.start()
    await worker.until_status("ready", 200)
    assert worker.lines_with("waiting for Qdrant") <= 3
    assert worker.lines_with("answers again") == 1
    assert await worker.stop() == 0
    assert worker.lines_with("Traceback") == 0


async def _says(worker, text: str) -> bool:
    return worker.lines_with(text) > 0


async def test_a_worker_that_still_waits_for_its_servers_can_be_stopped(home: House):
    home.qdrant.kill()
    worker = await home.worker("segment", ready=False)
    await until(lambda: _says(worker, "waiting for Qdrant"), 60, worker.said)
    assert await worker.stop() == 0


async def test_patience_ends_in_exit_code_69(home: House):
    home.qdrant.kill()
    worker = await home.worker("segment", ready=False, EUNOE_PATIENCE_SECONDS="1")
    assert await worker.ended() == 69
    assert worker.lines_with("Traceback") == 0
    assert f"Qdrant at 127.0.0.1:{home.qdrant.port}" in worker.said()


@pytest.mark.slow
async def test_a_log_shorter_than_what_was_handled_is_refused_until_the_epoch_is_raised(home: House):
    first = await home.worker("intake")
    await home.produce(8)
    await home.until_applied("intake", 8)
    await until(lambda: _no_lag(home, "intake"), 60, first.said)
    assert await first.stop() == 0
    before = await home.applied("intake")
    await remake_log(home.settings)
    await home.produce(4, first=8)
    refused = await home.worker("intake", ready=False)
    assert await refused.ended() == 2
    assert (refused.lines_with("EUNOE_EPOCH=1"), refused.lines_with("Traceback")) == (1, 0), refused.said()
    assert await home.applied("intake") == before, "records of the new log were handled"
    await home.worker("intake", EUNOE_EPOCH="1")
    await home.until_applied("intake", 12)


async def remake_log(settings: Settings) -> None:
    """Delete the topic of the log and create it anew, without a record."""
    admin = AIOKafkaAdminClient(**client_options(settings.kafka_settings))
    await admin.start()
    try:
        await admin.delete_topics([settings.names.name(Topic.CONVERSATIONS)])
    finally:
        await admin.close()
    await create_topics(settings.kafka_settings, settings.names, settings.partitions, settings.replication)


async def test_many_that_wait_for_redis_say_it_once_commit_nothing_and_go_on(home: House):
    assert home.redis is not None
    worker = await home.worker("all")
    await home.produce(5)
    await home.until_applied("segment", 5)
    home.redis.kill()
    await home.produce(MANY, first=5)
    await worker.until_status("ready", 503)
    await until(lambda: _waiting(worker, 20), 60, worker.said)
    status, report = await worker.health("live")
    assert (status, report["live"], report["ready"]) == (200, True, False)
    assert any("waiting for Redis at" in why for why in report["why"])
    said = worker.lines_with("waiting for Redis")
    assert 1 <= said <= 6
    home.redis.start()
    await home.until_applied("segment", MANY + 5)
    await home.until_applied("tree", MANY + 5)
    await worker.until_status("ready", 200)
    assert worker.lines_with("dead letter") == 0
    assert await worker.metric(r"eunoe_dead_letters_total\{") == 0
    assert await worker.metric(r'eunoe_events_total\{stage="intake"') >= (MANY + 5) * 3
    assert await worker.metric(r'eunoe_commits_total\{stage="segment"') == MANY + 5
    assert await worker.stop() == 0
    assert set((await home.applied("tree")).values()) == {1}


async def _waiting(worker, number: int) -> bool:
    return await worker.metric(r"eunoe_waiting\{") >= number


@pytest.mark.slow
async def test_who_waits_gives_way_to_a_rebalance_and_commits_nothing(home: House):
    """One of two workers leaves while both wait: what it held goes to the other, and nothing counts as done."""
    staying, leaving = await asyncio.gather(home.worker("compress"), home.worker("compress"))
    await home.worker("intake", "segment")
    home.qdrant.kill()
    await home.produce(MANY)
    await home.until_applied("segment", MANY)
    await until(lambda: _waiting(staying, 5), 60, staying.said)
    await until(lambda: _waiting(leaving, 5), 60, leaving.said)
    assert await leaving.stop() == 0
    await until(lambda: _gave_back(staying), 60, staying.said)
    assert await lag_of(home, "compress") == MANY
    home.qdrant.start()
    await until(lambda: _no_lag(home, "compress"), 120, staying.said)
    assert set((await home.applied("compress")).values()) == {1}


async def _gave_back(worker) -> bool:
    return await worker.metric(r"eunoe_given_back_total") > 0


async def _no_lag(home: House, stage: str) -> bool:
    return await lag_of(home, stage) == 0


async def test_a_second_signal_ends_at_once(home: House):
    assert home.redis is not None
    worker = await home.worker("all", EUNOE_SHUTDOWN_SECONDS="100")
    _freeze(home)
    await home.produce(10)
    await until(lambda: _in_work(worker), 60, worker.said)
    assert worker.process is not None
    worker.process.send_signal(signal.SIGTERM)
    await until(lambda: _says(worker, "stopping with"), 60, worker.said)
    assert await worker.stop(signal.SIGTERM, 20) == 130


async def test_the_deadline_ends_a_stop_that_takes_too_long(home: House):
    worker = await home.worker("segment", "intake", EUNOE_SHUTDOWN_SECONDS="2")
    _freeze(home)
    await home.produce(10)
    await until(lambda: _in_work(worker), 60, worker.said)
    # what is in work hangs in a request to Redis, whose time limit is longer than the deadline
    assert await worker.stop(timeout_s=30) in (0, 124)


def _freeze(home: House) -> None:
    """Redis neither answers nor refuses."""
    assert home.redis is not None
    assert home.redis.process is not None
    home.redis.process.send_signal(signal.SIGSTOP)


async def _in_work(worker) -> bool:
    return await worker.metric(r"eunoe_in_work\{") > 0
