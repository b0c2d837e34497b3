"""A stop of the embedded stack while clients of other processes still produce."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer

from eunoe.deploy.local.journal import Journal
from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.standalone import _end_log
from eunoe.schemas.errors import Unavailable
from eunoe.streams.admin import create_topics
from eunoe.streams.client import MemoryClient
from eunoe.streams.topics import Topic, TopicNames
from tests.broker.test_local_stack import kafka
from tests.support.command import until
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.pipeline import Pipeline

pytestmark = pytest.mark.broker

NAMES = TopicNames()


class Keys(MemoryKeyStore):
    """A key store that gives the key of a line only once the broker has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.ended = asyncio.Event(), asyncio.Event()

    async def current(self, conversation: str) -> Any:
        self.asked.set()
        await self.ended.wait()
        return await super().current(conversation)


async def test_what_the_broker_takes_until_it_ends_is_journalled(tmp_path: Path) -> None:
    async with LocalStack(tmp_path) as stack:
        await create_topics(kafka(stack), NAMES, 1)
        keys, journal = Keys(), Journal(tmp_path / "journal")
        writer = JournalWriter(journal, kafka(stack), NAMES, stack.epoch, keys)
        await writer.start()
        stack.wake(writer.notify)

        class Until:
            """The stack, of which the broker takes one more record as it is told to end."""

            async def stop_broker(self) -> None:
                async with AIOKafkaProducer(bootstrap_servers=stack.kafka, enable_idempotence=False) as foreign:
                    await foreign.send_and_wait(NAMES.name(Topic.CONVERSATIONS), b"x", key=b"acme/c", partition=0)
                await asyncio.wait_for(keys.asked.wait(), 30)
                await stack.stop_broker()
                asyncio.get_running_loop().call_soon(keys.ended.set)

        await _end_log(cast("LocalStack", Until()), writer)
        journal.close()
    assert [entry.key for entry in Journal(tmp_path / "journal").read(0)] == [b"acme/c"]


async def test_a_stop_is_clean_although_clients_are_connected(tmp_path: Path) -> None:
    async with LocalStack(tmp_path) as stack:
        await create_topics(kafka(stack), NAMES, 1)
        journal = Journal(tmp_path / "journal")
        writer = JournalWriter(journal, kafka(stack), NAMES, stack.epoch)
        await writer.start()
        async with AIOKafkaProducer(bootstrap_servers=stack.kafka, enable_idempotence=False):
            await writer.drain()
            stack.mark_drained()
            await _end_log(stack, writer)
        journal.close()
    async with LocalStack(tmp_path) as stack:
        assert stack.clean_start


async def import_without_end(pipeline: Pipeline, acknowledged: list[str]) -> None:
    """Say more than the stages take in, until the broker has gone."""
    settings = pipeline.settings
    async with MemoryClient(settings.kafka_settings, conversation_id="c", names=settings.names) as memory:

        async def say(id_: str) -> None:
            await memory.utter("It rains.", speaker="Ann", utterance_id=id_)
            acknowledged.append(id_)

        while True:
            some = [f"u{len(acknowledged) + number}" for number in range(20)]
            await asyncio.gather(*map(say, some), asyncio.sleep(0.1))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.embedded("stops the servers")
async def test_a_stop_during_an_import_is_clean_and_soon_and_loses_nothing(standalone: Pipeline) -> None:
    acknowledged: list[str] = []
    async with standalone.up() as process:
        importing = asyncio.ensure_future(import_without_end(standalone, acknowledged))

        async def is_behind() -> bool:
            return len(acknowledged) >= 300

        await until(is_behind)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 60) == 0
        importing.cancel()
        with suppress(asyncio.CancelledError, Unavailable):
            await importing
    assert (standalone.cwd / ".eunoe" / "clean").exists()
    async with standalone.up():

        async def all_there() -> bool:
            return (await standalone.shown("c")).head.remembered >= len(acknowledged)

        await until(all_there)
