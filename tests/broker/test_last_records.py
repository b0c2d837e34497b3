"""A stop of the embedded stack while clients of other processes still produce."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaProducer

from eunoe.deploy.local.journal import Journal
from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.deploy.local.stack import LocalStack
from eunoe.deploy.process.standalone import _end_log
from eunoe.streams.admin import create_topics
from eunoe.streams.topics import Topic, TopicNames
from eunoe.workers.stores.data_keys import MemoryKeyStore
from tests.broker.test_local_stack import kafka

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
