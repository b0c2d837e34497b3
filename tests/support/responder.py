"""An echo in the place of the workers: what is asked in the log gets the reply that a test makes of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from eunoe.schemas.base import Contract
from eunoe.schemas.events import Provenance, Strategy, Utterance
from eunoe.schemas.replies import Reply
from eunoe.streams.codec import decode, encode
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.reader import read_all
from eunoe.streams.record import Message, Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

PARTITIONS = 4


async def said(kafka: KafkaSettings, names: TopicNames) -> list[Record]:
    return [record async for record in read_all(kafka, names, Topic.CONVERSATIONS)]


async def until_said(kafka: KafkaSettings, names: TopicNames) -> None:
    while not await said(kafka, names):  # noqa: ASYNC110 - the log tells nobody that it grew
        await asyncio.sleep(0.05)


async def events(kafka: KafkaSettings, names: TopicNames) -> list[Contract]:
    return [decode(record.value) for record in await said(kafka, names)]


def reply_to(question: Utterance, **fields: Any) -> Reply:
    asked = question.ask
    assert asked is not None
    echo: dict[str, Any] = {
        "reply_id": f"r-{asked.request_id}",
        "request_id": asked.request_id,
        "speaker": asked.speak_as,
        "text": f"you said: {question.text}",
        "strategy": asked.strategy or Strategy.SEGMENT,
        "known_session": 0,
        "made_by": Provenance(code="echo", model="echo"),
    }
    return Reply(tenant=question.tenant, conversation_id=question.conversation_id, **(echo | fields))


@contextlib.asynccontextmanager
async def responder(
    kafka: KafkaSettings, names: TopicNames, answer: Callable[[Utterance], Iterable[Reply]]
) -> AsyncIterator[KafkaPublisher]:
    """Everything that is asked in ``conversations`` gets what ``answer`` makes of it."""
    topic = names.name(Topic.CONVERSATIONS)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, fetch_max_wait_ms=20)
    publisher = KafkaPublisher(kafka, names)
    await consumer.start()
    await publisher.start()
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)

    async def run() -> None:
        async for found in consumer:
            event = decode(found.value)
            if isinstance(event, Utterance) and event.ask:
                made = [Message(Topic.REPLIES, reply.key.encode(), encode(reply)) for reply in answer(event)]
                await publisher.publish(made)

    task = asyncio.create_task(run())
    try:
        yield publisher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await publisher.stop()
        await consumer.stop()


def echo(question: Utterance) -> list[Reply]:
    return [reply_to(question)]
