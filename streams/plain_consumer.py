"""Consumers without a group, and what they share."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from eunoe.schemas.errors import Unavailable
from eunoe.streams.holes import consumer_class
from eunoe.streams.pace import Pacing
from eunoe.streams.record import Record
from eunoe.streams.settings import LARGEST_RECORD, KafkaSettings, client_options

_BATCH_RECORDS = 500
_FETCH_BYTES = 4 * LARGEST_RECORD
_ENDS_POLL_MS = 20

BRIEF_WAIT_MS = 20
"""For a consumer that lives for a moment: where a partition ends is told by an empty fetch when it returns."""


@asynccontextmanager
async def open_consumer(kafka: KafkaSettings, fetch_wait_ms: int | None = None) -> AsyncIterator[AIOKafkaConsumer]:
    """A started consumer without a group, nothing assigned yet; raises `Unavailable` when no broker answers.

    ``fetch_wait_ms``: how long the broker may hold an empty fetch, where it is not as the settings say.
    """
    consumer = consumer_class(dense=kafka.dense)(
        **client_options(kafka),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=fetch_wait_ms or kafka.fetch_wait_ms,
        max_partition_fetch_bytes=_FETCH_BYTES,
        fetch_max_bytes=_FETCH_BYTES,
        max_poll_records=_BATCH_RECORDS,
    )
    try:
        with broker_faults(kafka):
            await consumer.start()
        if kafka.fetch_rest_ms:
            Pacing(kafka.fetch_rest_ms / 1000 if fetch_wait_ms is None else 0.0).keep(consumer)
        yield consumer
    finally:
        await _close(consumer)


async def _close(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer whole: aiokafka lets the end of a fetch that is in its backoff through as a cancellation."""
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()  # noqa: SLF001 - what it left undone
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise


async def end_offsets(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset after the last record of each partition; leaves the consumer with no assignment to rely on.

    A broker may tell less when it is asked for its latest offsets (Tansu 0.6.0 tells the first of the last batch,
    plus one); the end that comes with a fetch is right. Raises `Unavailable` when no broker answers.
    """
    if not places:
        return {}
    with broker_faults(kafka):
        async with asyncio.timeout(kafka.request_timeout_ms / 1000):
            told: dict[TopicPartition, int] = await consumer.end_offsets(places)
            consumer.assign(list(places))
            for place in places:
                consumer.seek(place, told[place])
            while any(consumer.highwater(place) is None for place in places):
                await consumer.getmany(timeout_ms=_ENDS_POLL_MS)
            return {place: max(told[place], consumer.highwater(place)) for place in places}


def as_record(topic: str, found: ConsumerRecord) -> Record:
    """What the consumer found, as a record of the logical ``topic``; of headers of the same name the last one."""
    return Record(
        topic=topic,
        partition=found.partition,
        offset=found.offset,
        key=found.key,
        value=found.value or b"",
        timestamp_ms=found.timestamp,
        headers={name: value or b"" for name, value in found.headers},
    )


@contextmanager
def broker_faults(kafka: KafkaSettings) -> Iterator[None]:
    """Turn what the Kafka client raises into `Unavailable`, in one line with the address."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as fault:
        told = str(fault) or type(fault).__name__
        raise Unavailable(f"{kafka.server} does not answer: {told:.300}", kafka.server) from fault
