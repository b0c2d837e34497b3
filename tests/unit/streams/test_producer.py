"""The producer of a publisher, by aiokafka's own rules, over a broker that counts sequence numbers and can hang."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import (
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownProducerId,
)
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatch

from eunoe.deploy.exits import Exit, code_of
from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.streams.publisher import KafkaPublisher, MessageTooLarge
from eunoe.streams.record import Message
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

pytestmark = pytest.mark.timeout(60)

KAFKA = KafkaSettings(bootstrap="127.0.0.1:1", request_timeout_ms=1_000)
PARTITIONS = 2


class CountingBroker:
    """Takes batches with the next sequence number of their producer, and answers as a broker does to all others."""

    def __init__(self) -> None:
        self.leaders = dict.fromkeys(range(PARTITIONS), 1)
        self.answers, self.gives_ids = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self.gives_ids.set()
        self.ids = 0
        self.refuses: list[type[Exception]] = []
        self.stored: list[tuple[int, int, bytes]] = []
        """Of each record: the producer, the partition, the value."""
        self._next: Counter[tuple[int, int]] = Counter()

    async def send(self, request: Any) -> Any:
        await self.answers.wait()
        if isinstance(request, ProduceRequest):
            return self._produce(request)
        if not self.gives_ids.is_set():
            raise RequestTimedOutError
        self.ids += 1
        return SimpleNamespace(error_code=0, producer_id=self.ids, producer_epoch=0)

    def _produce(self, request: Any) -> Any:
        [(topic, partitions)] = request._topics
        found = [(partition, *self._append(partition, bytes(data)), -1, 0) for partition, data in partitions]
        return SimpleNamespace(API_VERSION=7, topics=[(topic, found)])

    def _append(self, partition: int, data: bytes) -> tuple[int, int]:
        """Error code and offset."""
        batch = DefaultRecordBatch(data)
        if self.refuses:
            return self.refuses.pop().errno, -1  # type: ignore[attr-defined]
        if batch.base_sequence != self._next[batch.producer_id, partition]:
            return OutOfOrderSequenceNumber.errno, -1
        offset = sum(at == partition for _, at, _ in self.stored)
        added = [(batch.producer_id, partition, bytes(record.value)) for record in batch]
        self._next[batch.producer_id, partition] += len(added)
        self.stored += added
        return 0, offset


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> CountingBroker:
    made = CountingBroker()

    async def bootstrap(_client: AIOKafkaClient) -> None:
        pass

    async def send(_client: AIOKafkaClient, _node: int, request: object, **_: object) -> Any:
        return await made.send(request)

    async def wait_on_metadata(_client: AIOKafkaClient, _topic: str) -> set[int]:
        return set(made.leaders)

    def force_metadata_update(_client: AIOKafkaClient) -> Any:
        return asyncio.ensure_future(asyncio.sleep(0.05))

    monkeypatch.setattr(AIOKafkaClient, "bootstrap", bootstrap)
    monkeypatch.setattr(AIOKafkaClient, "send", send)
    monkeypatch.setattr(AIOKafkaClient, "get_random_node", lambda _client: 1)
    monkeypatch.setattr(AIOKafkaClient, "_wait_on_metadata", wait_on_metadata)
    monkeypatch.setattr(AIOKafkaClient, "force_metadata_update", force_metadata_update)
    monkeypatch.setattr(ClusterMetadata, "partitions_for_topic", lambda *_: set(made.leaders))
    monkeypatch.setattr(ClusterMetadata, "leader_for_partition", lambda _, place: made.leaders[place.partition])
    return made


@pytest.fixture
async def left_behind() -> AsyncIterator[list[str]]:
    """What the event loop complains about: tasks and producers that nobody ended, faults that nobody retrieved."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    yield complaints
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    gc.collect()
    assert complaints == []


@asynccontextmanager
async def started(kafka: KafkaSettings = KAFKA) -> AsyncIterator[KafkaPublisher]:
    publisher = KafkaPublisher(kafka, TopicNames())
    await publisher.start()
    try:
        yield publisher
    finally:
        await publisher.stop()


async def send(publisher: KafkaPublisher, value: bytes, partition: int = 0) -> None:
    await publisher.publish([Message(Topic.SESSIONS, b"key", value, partition=partition)])


def values(broker: CountingBroker, partition: int = 0) -> list[bytes]:
    return [value for _, at, value in broker.stored if at == partition]


@pytest.mark.usefixtures("left_behind")
async def test_a_partition_that_had_no_leader_is_written_to_once_it_has_one(broker: CountingBroker) -> None:
    async with started() as publisher:
        await send(publisher, b"1")
        broker.leaders[0] = -1
        with pytest.raises(Unavailable):
            await send(publisher, b"2")
        await asyncio.sleep(0.3)  # the batch fails after its caller has given up
        broker.leaders[0] = 1
        for value in (b"2", b"3"):
            await send(publisher, value)
    assert values(broker) == [b"1", b"2", b"3"]
    assert broker.ids == 2


@pytest.mark.usefixtures("left_behind")
@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (MessageSizeTooLargeError, MessageTooLarge),
        (OutOfOrderSequenceNumber, Unavailable),
        (UnknownProducerId, Unavailable),
    ],
)
async def test_after_a_batch_that_failed_for_good_the_next_one_goes_through_a_new_producer(
    broker: CountingBroker, fault: type[Exception], raised: type[Exception]
) -> None:
    async with started() as publisher:
        await send(publisher, b"1")
        broker.refuses = [fault]
        with pytest.raises(raised):
            await send(publisher, b"refused")
        await send(publisher, b"2")
    assert broker.stored == [(1, 0, b"1"), (2, 0, b"2")]


@pytest.mark.usefixtures("left_behind")
async def test_a_topic_that_takes_less_than_it_must_is_named_and_is_a_fault_of_settings(broker: CountingBroker) -> None:
    async with started() as publisher:
        broker.refuses = [MessageSizeTooLargeError]
        with pytest.raises(MessageTooLarge, match=r"too large .* in \S+ \(\d+ bytes\): raise .*, to \d+") as found:
            await send(publisher, b"refused")
    assert code_of(found.value) is Exit.USAGE


@pytest.mark.usefixtures("left_behind")
async def test_a_right_that_is_taken_away_is_named_and_waited_for(broker: CountingBroker) -> None:
    kafka = KAFKA.model_copy(update={"sasl_username": "worker"})
    async with started(kafka) as publisher:
        broker.refuses = [TopicAuthorizationFailedError]
        with pytest.raises(Misconfigured, match=r"user worker .*grant Write on topic eunoe\.v1\.sessions"):
            await send(publisher, b"1")
        await send(publisher, b"1")
    assert values(broker) == [b"1"]


@pytest.mark.usefixtures("left_behind")
async def test_faults_at_one_time_make_one_new_producer_and_what_others_sent_is_sent(broker: CountingBroker) -> None:
    async with started() as publisher:
        await send(publisher, b"1")
        broker.answers.clear()
        first = [asyncio.create_task(send(publisher, b"refused", partition)) for partition in range(PARTITIONS)]
        await asyncio.sleep(0.1)  # it is under way, and what follows waits for it
        second = [asyncio.create_task(send(publisher, b"behind", partition)) for partition in range(PARTITIONS)]
        await asyncio.sleep(0.1)
        broker.refuses = [OutOfOrderSequenceNumber]  # of the partition that is answered first
        broker.answers.set()
        ended = await asyncio.gather(*first, *second, return_exceptions=True)
        assert [type(one) for one in ended] == [Unavailable, type(None), Unavailable, type(None)]
        await asyncio.gather(*(send(publisher, b"again") for _ in range(5)))
    assert broker.ids == 2
    assert values(broker, 1) == [b"refused", b"behind"]
    assert values(broker) == [b"1", *[b"again"] * 5]


@pytest.mark.usefixtures("left_behind")
async def test_a_new_producer_that_cannot_be_started_is_tried_again(broker: CountingBroker) -> None:
    async with started() as publisher:
        broker.refuses = [OutOfOrderSequenceNumber]
        broker.gives_ids.clear()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await send(publisher, b"1")
        broker.gives_ids.set()
        await send(publisher, b"1")
    assert values(broker) == [b"1"]


@pytest.mark.usefixtures("left_behind")
async def test_without_a_producer_id_the_start_ends_in_time(broker: CountingBroker) -> None:
    broker.gives_ids.clear()
    publisher = KafkaPublisher(KAFKA, TopicNames())
    begun = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="not started within 2 s"):
        await publisher.start()
    assert asyncio.get_running_loop().time() - begun < 5
    with pytest.raises(Unavailable, match="not started"):
        await send(publisher, b"1")


@pytest.mark.usefixtures("left_behind")
@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_broker_that_hangs_does_not_keep_a_publisher_from_stopping(
    broker: CountingBroker, caplog: pytest.LogCaptureFixture, *, idempotent: bool
) -> None:
    kafka = KAFKA.model_copy(update={"idempotent": idempotent})
    with caplog.at_level(logging.WARNING):
        async with started(kafka) as publisher:
            broker.answers.clear()
            sending = [asyncio.create_task(send(publisher, b"1")), asyncio.create_task(send(publisher, b"2", 1))]
            await asyncio.sleep(0.1)
            sending.append(asyncio.create_task(send(publisher, b"3")))  # waits for its turn
            await asyncio.sleep(0)
            begun = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begun < 5
        ended = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(one) for one in ended] == [Unavailable] * 3
    assert len([one for one in caplog.records if one.name.startswith("eunoe")]) == 1


@pytest.mark.usefixtures("left_behind")
async def test_a_publisher_that_stops_waits_for_no_request_timeout(broker: CountingBroker) -> None:
    kafka = KAFKA.model_copy(update={"request_timeout_ms": 30_000})
    publisher = KafkaPublisher(kafka, TopicNames())
    await publisher.start()
    broker.answers.clear()
    sending = asyncio.create_task(send(publisher, b"1"))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(20):
        await publisher.stop()
    with pytest.raises(Unavailable):
        await sending


@pytest.mark.usefixtures("left_behind")
async def test_a_batch_that_waits_to_be_repeated_is_given_up_too(broker: CountingBroker) -> None:
    async with started() as publisher:
        broker.leaders = {0: 1, 1: 2}
        broker.refuses = [NotLeaderForPartitionError]
        sending = [asyncio.create_task(send(publisher, b"1"))]
        await asyncio.sleep(0.05)
        broker.answers.clear()
        broker.leaders[0] = 2  # which another request keeps busy
        sending.append(asyncio.create_task(send(publisher, b"2", 1)))
        await asyncio.sleep(0.1)
    ended = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(one) for one in ended] == [Unavailable] * 2


@pytest.mark.usefixtures("left_behind")
async def test_who_stops_a_publisher_may_be_cancelled(broker: CountingBroker) -> None:
    publisher = KafkaPublisher(KAFKA, TopicNames())
    await publisher.start()
    broker.answers.clear()
    sending = asyncio.create_task(send(publisher, b"1"))
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(publisher.stop())
    await asyncio.sleep(0.1)
    stopping.cancel()
    await asyncio.wait({stopping})
    assert stopping.cancelled()
    with pytest.raises(Unavailable):
        await sending


@pytest.mark.usefixtures("left_behind")
async def test_a_publisher_that_stops_gives_up_the_start_of_a_new_producer(broker: CountingBroker) -> None:
    async with started() as publisher:
        broker.refuses = [OutOfOrderSequenceNumber]
        with pytest.raises(Unavailable):
            await send(publisher, b"1")
        broker.gives_ids.clear()
        sending = asyncio.create_task(send(publisher, b"1"))
        await asyncio.sleep(0.1)
    with pytest.raises(Unavailable, match="stopped"):
        await sending
