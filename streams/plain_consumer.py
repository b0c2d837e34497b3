"""Consumers without a group, and helpers that all consumers share."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from eunoe.schemas.errors import Unavailable
from eunoe.streams.access import why_denied, why_unavailable
from eunoe.streams.batches import install_reader
from eunoe.streams.broker_adapter import ConsumerLoad, Notify
from eunoe.streams.record import Record
from eunoe.streams.settings import LARGEST_RECORD, KafkaSettings, client_options

_BATCH_RECORDS = 500
_NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})
_FETCH_BYTES = 4 * LARGEST_RECORD
_BRIEF_WAIT_MS = 20
_START_S = 2.0
"""Seconds for which a cancelled start may go on; with a broker that answers it takes a hundredth of that."""


@asynccontextmanager
async def open_consumer(kafka: KafkaSettings, *, brief: bool = False) -> AsyncIterator[AIOKafkaConsumer]:
    """A started consumer without a group and without an assignment; raises `Unavailable` when no broker answers.

    A ``brief`` one lives for one look at the log: its fetches are not delayed, and the broker answers an empty fetch
    after 20 ms, whatever the settings say.
    """
    async with open_adapted_consumer(kafka, ConsumerLoad(brief=brief)) as (consumer, _):
        yield consumer


@asynccontextmanager
async def open_adapted_consumer(
    kafka: KafkaSettings, load: ConsumerLoad
) -> AsyncIterator[tuple[AIOKafkaConsumer, Notify]]:
    """A consumer as `open_consumer` gives it, paced by its load, and its notification."""
    install_reader()
    consumer = kafka.adapter.consumer_class(
        **client_options(kafka),
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_BRIEF_WAIT_MS if load.brief else kafka.fetch_wait_ms,
        max_partition_fetch_bytes=_FETCH_BYTES,
        fetch_max_bytes=_FETCH_BYTES,
        max_poll_records=_BATCH_RECORDS,
    )
    try:
        with broker_faults(kafka):
            await _start(consumer, kafka)
        yield consumer, kafka.adapter.attach(consumer, load)
    finally:
        await _closed(consumer)


async def _start(consumer: AIOKafkaConsumer, kafka: KafkaSettings) -> None:
    """Start a consumer; a cancellation is delayed until it has connected: aiokafka loses connections half made."""
    starting = asyncio.ensure_future(consumer.start())
    try:
        await asyncio.shield(starting)
    except KafkaConnectionError as fault:
        raise await why_unavailable(kafka, fault) from fault
    except asyncio.CancelledError:
        await asyncio.wait({starting}, timeout=_START_S)
        starting.cancel()
        await asyncio.wait({starting})
        raise


async def _closed(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer to the end, also where whoever waits for it is cancelled: its connections would stay."""
    closing = asyncio.ensure_future(_close(consumer))
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await asyncio.wait({closing})
        raise


async def _close(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer, although aiokafka raises CancelledError for a fetch that it stops during its backoff."""
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()  # noqa: SLF001 - the part of stop() that was skipped
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise


async def end_offsets(
    kafka: KafkaSettings, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offset after the last record of each partition; may replace the assignment of the consumer.

    Raises `Unavailable` when no broker answers.
    """
    if not partitions:
        return {}
    with broker_faults(kafka):
        async with asyncio.timeout(kafka.request_timeout_ms / 1000):
            return await kafka.adapter.end_offsets(consumer, partitions)


def as_record(topic: str, found: ConsumerRecord) -> Record:
    """A consumed record as a `Record` of the logical ``topic``; of headers with the same name, the last one counts."""
    return Record(
        topic=topic,
        partition=found.partition,
        offset=found.offset,
        key=found.key,
        value=found.value or b"",
        timestamp_ms=found.timestamp,
        headers={name: value or b"" for name, value in found.headers} if found.headers else _NO_HEADERS,
    )


@contextmanager
def broker_faults(kafka: KafkaSettings) -> Iterator[None]:
    """Turn exceptions of the Kafka client into `Unavailable`, in one line with the address."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as fault:
        text = str(fault) or type(fault).__name__
        raise why_denied(kafka, fault) or Unavailable(
            f"no answer from {kafka.server}: {text:.300}", kafka.server
        ) from fault
