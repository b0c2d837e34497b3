"""Another number of partitions, while people go on talking: the same memory, no ask unanswered, and the way told."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eunoe.deploy.clients.live_settings import client_settings, live_settings
from eunoe.deploy.clients.shared import open_publisher, open_store
from eunoe.deploy.generations.promotion import promote
from eunoe.deploy.inspect.dead_letters import LetterFilter, read_letters, retry_letters
from eunoe.deploy.repartition.plan import survey
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused
from eunoe.schemas.records import DeadLetterReason
from eunoe.schemas.replies import Reply
from eunoe.streams.admin import check_partitions, create_topics
from eunoe.streams.client import MemoryClient, ReplyFailed
from eunoe.streams.codec import decode
from eunoe.streams.gateway import GatewayConnection
from eunoe.streams.http_client import HttpMemoryClient
from eunoe.streams.http_feed import remembered_feed
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.registry import STAGES
from tests.broker.test_rebuild import small_talk
from tests.support.command import running, until
from tests.support.pipeline import Pipeline, sealed_pipeline, shared_pipeline
from tests.support.replica import feed_begin, served
from tests.support.session import SessionServers
from tests.support.whole_state import read_digest

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

BEFORE, AFTER = 3, 5
CROWD = [f"c{number}" for number in range(5)]
ASKER = "asker"


@pytest.fixture(params=["plain", "sealed"])
def pipeline(servers: SessionServers, tmp_path: Path, request: pytest.FixtureRequest) -> Pipeline:
    plain = shared_pipeline(tmp_path, servers, BEFORE)
    return plain if request.param == "plain" else sealed_pipeline(plain)


@dataclass
class Asker:
    """Asks all the time, and goes where it is told to."""

    settings: Settings
    answered: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    log: int = 0

    async def run(self) -> None:
        while True:
            names = TopicNames(prefix=self.settings.prefix, log=self.log)
            async with MemoryClient(self.settings.kafka_settings, conversation_id=ASKER, names=names) as client:
                try:
                    while True:
                        reply = await client.ask("Where do I work?", speaker="Ann", record=False, timeout=90.0)
                        self.answered.append(reply.request_id)
                        await asyncio.sleep(0.1)  # people pause: the rest of the test needs the processor too
                except ReplyFailed as fault:
                    self.refused.append(str(fault))
                    self.log += 1

    async def more(self) -> None:
        """Wait for three more answers."""
        wanted = len(self.answered) + 3

        async def there() -> bool:
            return len(self.answered) >= wanted

        await until(there, 90)


@dataclass
class Listener:
    """Follows over HTTP what is remembered of all conversations."""

    gateway: GatewayConnection
    begin: str
    """The place that it begins behind, however late it connects."""
    heard: list[tuple[str, int] | None] = field(default_factory=list)
    """(conversation, session); `None` for memory that was derived anew."""

    async def run(self) -> None:
        async for event in remembered_feed(self.gateway, after=self.begin, timeout=90.0):
            session = event.session
            self.heard.append(None if session is None else (session.conversation_id, session.session))

    async def hears(self, wanted: tuple[str, int] | None) -> None:
        """Wait for an event."""

        async def heard() -> bool:
            return wanted in self.heard

        await until(heard, 60)


async def digests(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Conversation → hash, the log's times included, in the live generation."""
    async with open_store(await live_settings(settings)) as store:
        found = [await read_digest(store, f"default/{name}", STAGES, log_times=True) for name in names]
    return {each.key: each.sha256 for each in found}


async def test_the_log_gets_other_partitions_while_clients_go_on(pipeline: Pipeline, tmp_path: Path):
    settings = pipeline.settings
    await create_topics(settings.kafka_settings, settings.names, BEFORE, settings.replication)
    async with (
        running("worker", "all", cwd=pipeline.cwd, **pipeline.variables),
        served(settings, tmp_path) as gateway,
        GatewayConnection(gateway.url, gateway.key()) as connection,
    ):
        listener = Listener(connection, feed_begin(settings, range(BEFORE)))
        listening = asyncio.create_task(listener.run())
        await pipeline.produce(*(line for number in range(len(CROWD)) for line in small_talk(number)))
        for name in CROWD:
            await pipeline.remembered(2, name)
        await listener.hears((CROWD[0], 2))
        before = await digests(settings, CROWD)
        asker = Asker(settings)
        asking = asyncio.create_task(asker.run())
        words = ("topics", "repartition", str(AFTER), "--workers", "1", "--yes", "--follow")
        async with running(*words, cwd=pipeline.cwd, ready="is live now", **pipeline.variables):
            await until(lambda: _was_refused(asker), 60)
            await asker.more()
            assert not asking.done(), asking.exception()
            asking.cancel()
            assert await digests(settings, CROWD) == before
            await _check_listener(listener)
            assert not listening.done(), listening.exception()
            listening.cancel()
            await _check_asks(pipeline, asker)
            await _check_followers(settings)
            live = await live_settings(settings)
            if live.names.door_ms is not None:
                moved = {one.key async for one in read_all(live.kafka_settings, live.names, Topic.LOG)}
                assert {f"default/{name}".encode() for name in (*CROWD, ASKER)} <= moved


async def _was_refused(asker: Asker) -> bool:
    return bool(asker.refused)


async def _check_listener(listener: Listener) -> None:
    """It was told to read memory again, and hears of what is said in the new log."""
    await listener.hears(None)
    async with HttpMemoryClient(listener.gateway, conversation_id=CROWD[0]) as memory:
        await memory.utter("I work as a teacher now.", speaker="Ann", session_id="new")
        await memory.end_session(session_id="new")
    await listener.hears((CROWD[0], 3))
    assert listener.heard.count(None) == 1


async def _check_asks(pipeline: Pipeline, asker: Asker) -> None:
    """Each is answered once; the one that came too late was told where to go, and then sent there."""
    settings = await live_settings(pipeline.settings)
    (told,) = asker.refused
    assert "EUNOE_LOG=1" in told
    replies = [decode(record.value) for record in await pipeline.records(Topic.REPLIES)]
    asked = [reply.request_id for reply in replies if isinstance(reply, Reply)]
    assert len(asked) == len(set(asked)) >= len(asker.answered) + 1
    assert [reply.request_id in told for reply in replies if isinstance(reply, Reply) and reply.error] == [True]
    letters = await read_letters(settings)
    assert [(filed.letter.reason, filed.letter.key) for filed in letters] == [
        (DeadLetterReason.MOVED, f"default/{ASKER}")
    ]
    async with open_publisher(settings) as publisher:
        await retry_letters(settings, publisher, letters)
    assert await read_letters(settings, LetterFilter(reason=DeadLetterReason.MOVED)) == []

    async def answered_there() -> bool:
        return len(await pipeline.records(Topic.REPLIES)) > len(replies)

    await until(answered_there, 60)


async def _check_followers(settings: Settings) -> None:
    """Who has Redis finds the new log; who would go back is refused."""
    live = await live_settings(settings)
    assert (live.names.generation, (await client_settings(settings)).names.log) == ("v2", 1)
    assert live.names.name(Topic.CONVERSATIONS).endswith(".conversations.1")
    assert await check_partitions(live.kafka_settings, live.names) == AFTER
    with pytest.raises(Refused, match="has replaced"):
        await promote(settings, "v1", lambda _left: None)
    with pytest.raises(Refused, match=f"has {AFTER} partitions already"):
        await survey(settings, AFTER)
