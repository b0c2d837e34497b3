"""Those who follow memory are told of an erasure and of a repair, once readers find what was derived again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from eunoe.deploy.clients.bootstrap import open_clients
from eunoe.deploy.clients.data_keys import open_data_keys
from eunoe.deploy.generations import repair
from eunoe.deploy.generations.erase import in_generation
from eunoe.deploy.generations.erase.run import Eraser
from eunoe.deploy.generations.followers import tell_followers
from eunoe.deploy.generations.handled_log import HandledLog
from eunoe.deploy.generations.repair import Repairer
from eunoe.schemas.memory import DerivedReason, MemoriesDerived
from eunoe.streams.codec import decode
from eunoe.streams.http_client import GatewayConnection, remembered_feed
from eunoe.streams.http_feed import FeedEvent
from eunoe.streams.sealed.records import SEALED_HEADER, open_record
from eunoe.streams.settings import partition_of
from eunoe.streams.topics import Topic
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from tests.broker.test_erase import Killed, end, request, said, sessions
from tests.broker.test_repair_beside_erasures import with_ledger
from tests.support.bystanders import drained
from tests.support.pipeline import PARTITIONS, Pipeline, sealed_pipeline
from tests.support.replica import feed_begin, replica

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]


async def notices(pipeline: Pipeline) -> list[tuple[str, DerivedReason]]:
    """The notices in `changes` that can be read, by conversation."""
    async with open_data_keys(pipeline.settings) as keys:
        opened = [await open_record(record, keys) for record in await pipeline.records(Topic.CHANGES)]
    events = [decode(record.value) for record in opened if record is not None]
    return [(event.conversation_id, event.reason) for event in events if isinstance(event, MemoriesDerived)]


async def repaired(pipeline: Pipeline, name: str) -> None:
    """Repair a conversation, as `eunoe repair` does."""
    async with open_clients(pipeline.settings) as clients:
        log = HandledLog(pipeline.settings, clients, PARTITIONS)
        await Repairer(pipeline.settings, clients, clients.transplants, log).repair(f"default/{name}")


async def read(client: httpx.AsyncClient, name: str) -> str:
    """What the gateway shows of a conversation."""
    paths = ("memories?status=all", "sessions/1", "sessions/2", "tree")
    return "".join([(await client.get(f"/v1/conversations/{name}/{path}")).text for path in paths])


async def told(feed: AsyncGenerator[FeedEvent]) -> FeedEvent:
    async with asyncio.timeout(60):
        return await anext(feed)


async def session_of(feed: AsyncGenerator[FeedEvent]) -> int:
    """The session that the next event tells of."""
    event = await told(feed)
    assert event.session is not None
    return event.session.session


def told_of(event: FeedEvent) -> tuple[str, DerivedReason]:
    assert (event.session, event.derived is None) == (None, False)
    assert event.derived is not None
    return event.derived.conversation_id, event.derived.reason


@pytest.mark.parametrize("kept", ["plain", "sealed"])
async def test_followers_are_told_and_then_read_memory_without_what_was_erased(
    pipeline: Pipeline, tmp_path: Path, kept: str
) -> None:
    given = sealed_pipeline(pipeline) if kept == "sealed" else with_ledger(pipeline)
    eraser = Eraser(given.settings, SqliteErasures(given.cwd / "ledger.sqlite"))
    erased = ("mine", DerivedReason.ERASED)
    async with given.up(), replica(given, tmp_path) as client:
        await given.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await given.remembered(2, name)
        key = client.headers["authorization"].split()[1]
        first = feed_begin(given.settings, [partition_of(b"default/mine", PARTITIONS)])
        async with (
            GatewayConnection(str(client.base_url), key) as gateway,
            aclosing(remembered_feed(gateway, "mine", after=first)) as feed,
        ):
            assert [await session_of(feed) for _ in range(2)] == [1, 2]
            assert "Zanzibar" in await read(client, "mine")
            erasing = asyncio.create_task(eraser.carry_out(await eraser.begin(request("mine", "u0"))))
            event = await told(feed)
            assert told_of(event) == erased
            assert "Zanzibar" not in await read(client, "mine"), "as soon as it is told"
            await erasing
            await eraser.carry_out(await eraser.begin(request("mine")))
            assert told_of(await told(feed)) == erased
            assert "Bergen" not in await read(client, "mine")
            await given.produce(said("mine", 6), end("mine", 3))
            assert await session_of(feed) == 3
            async with aclosing(remembered_feed(gateway, "mine", after=event.place)) as resumed:
                assert told_of(await told(resumed)) == erased
        repairing = await given.eunoe("repair", "other")
        assert repairing.code == 0, repairing.err
        assert (await notices(given)).count(("other", DerivedReason.REPAIRED)) == 1
        sealed = {SEALED_HEADER in record.headers for record in await given.records(Topic.CHANGES)}
        assert sealed == {kept == "sealed"}
        await given.remembered(3, "mine")
        await drained(given)
        assert await given.records(Topic.DEAD_LETTERS) == []


async def test_what_was_killed_before_it_told_tells_when_it_is_repeated(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = with_ledger(pipeline)
    eraser = Eraser(given.settings, SqliteErasures(given.cwd / "ledger.sqlite"))

    async def kill(*_: Any) -> None:
        raise Killed

    async def tell_and_kill(*words: Any) -> None:
        await tell_followers(*words)
        raise Killed

    async with given.up():
        await given.produce(*sessions("mine"), *sessions("other"))
        for name in ("mine", "other"):
            await given.remembered(2, name)
    erasure = await eraser.begin(request("mine", "u0"))
    erased = ("mine", DerivedReason.ERASED)
    for killed, known in ((kill, []), (tell_and_kill, [erased])):
        monkeypatch.setattr(in_generation, "tell_followers", killed)
        with pytest.raises(Killed):
            await eraser.carry_out(erasure)
        assert (await eraser.unfinished(), await notices(given)) == ([erasure], known)
    monkeypatch.setattr(in_generation, "tell_followers", tell_followers)
    await eraser.carry_out(erasure)
    assert (await eraser.unfinished(), await notices(given)) == ([], [erased, erased])
    monkeypatch.setattr(repair, "close", kill)  # of the letters for which it is repeated
    with pytest.raises(Killed):
        await repaired(given, "other")
    assert ("other", DerivedReason.REPAIRED) in await notices(given)
