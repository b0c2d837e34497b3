"""``python -m tests.faults.echo``: answers each ask at once, in the place of the stages.

A responder takes 20 ms of processor time an ask, and bounds the rate of a load long before the gateway does.
"""

import asyncio
import sys

from aiokafka import TopicPartition

from eunoe.deploy.settings import read_settings
from eunoe.schemas.events import Utterance
from eunoe.streams.codec import decode, encode
from eunoe.streams.plain_consumer import end_offsets, open_consumer
from eunoe.streams.publisher import KafkaPublisher
from eunoe.streams.record import Message
from eunoe.streams.topics import Topic
from tests.support.responder import reply_to


async def run() -> None:
    """Answer until the process ends."""
    settings = read_settings()
    kafka, names = settings.kafka_settings, settings.names
    publisher = KafkaPublisher(kafka, names)
    await publisher.start()
    topic = names.name(Topic.CONVERSATIONS)
    places = [TopicPartition(topic, number) for number in range(settings.partitions)]
    async with open_consumer(kafka) as consumer:
        ends = await end_offsets(kafka, consumer, places)
        consumer.assign(places)
        for place, end in ends.items():
            consumer.seek(place, end)
        sys.stderr.write("ready\n")
        answered: set[str] = set()
        while True:
            found = await consumer.getmany(timeout_ms=1_000)
            said: list[object] = [decode(record.value) for records in found.values() for record in records]
            asked = {one.ask.request_id: one for one in said if isinstance(one, Utterance) and one.ask is not None}
            replies = [reply_to(one) for id_, one in asked.items() if id_ not in answered]
            answered |= asked.keys()  # as the responder does: an ask sent again is answered once
            if replies:
                made = [Message(Topic.REPLIES, reply.key.encode(), encode(reply)) for reply in replies]
                await publisher.publish(made)


if __name__ == "__main__":
    asyncio.run(run())
