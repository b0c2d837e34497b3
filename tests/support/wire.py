"""Records and batches as a hostile producer may send them, and producers that send them as they are."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from confluent_kafka import KafkaException, Producer

from eunoe.streams.settings import KafkaSettings, client_options, partition_of
from eunoe.streams.topics import Topic, TopicNames

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch."""
Headers = tuple[tuple[str, bytes], ...]

_CRC_AT, _AFTER_CRC, _ATTRIBUTES_AT, _LAST_DELTA_AT, _COUNT_AT = 17, 21, 22, 23, 57


@dataclass(frozen=True, slots=True)
class HostileRecord:
    """One record."""

    name: str
    value: bytes | None
    key: bytes | None = None
    topic: Topic = Topic.CONVERSATIONS
    headers: Headers = ()
    partition: int | None = None
    """`None` means the partition of the key, or 0 without one."""
    timestamp_ms: int | None = None
    """`None` means the time of sending."""
    codec: str = "none"

    def place(self, partitions: int) -> int:
        """The partition it is sent to."""
        if self.partition is not None:
            return self.partition % partitions
        return 0 if self.key is None else partition_of(self.key, partitions)


@dataclass(frozen=True, slots=True)
class HostileBatch:
    """A batch of records, damaged on its way."""

    name: str
    values: tuple[bytes, ...]
    key: bytes | None = None
    topic: Topic = Topic.CONVERSATIONS
    codec: str = "none"
    header: tuple[str, bytes] | None = None
    damage: tuple[tuple[int, int], ...] = ()
    """(place, byte) within the records; places go round."""
    signed: bool = True
    """Whether the checksum fits the damaged bytes."""
    codec_number: int | None = None
    """Says another codec than the one that packed it."""
    last_delta: int | None = None
    """Says another number of offsets than it has records."""
    count: int | None = None
    """Says another number of records."""

    def raw(self) -> bytes:
        """The batch for a produce request."""
        builder = DefaultRecordBatchBuilder(
            magic=2, compression_type=CODECS.index(self.codec), is_transactional=0, producer_id=-1, producer_epoch=-1,
            base_sequence=-1, batch_size=1 << 26,
        )  # fmt: skip
        headers = [] if self.header is None else [self.header]
        for number, value in enumerate(self.values):
            builder.append(number, timestamp=1_767_225_600_000, key=self.key, value=value, headers=headers)
        made = bytearray(builder.build())
        begin = struct.calcsize(">qiibIhiqqqhii")
        for at, byte in self.damage:
            made[begin + at % max(len(made) - begin, 1)] = byte
        if self.codec_number is not None:
            made[_ATTRIBUTES_AT] = made[_ATTRIBUTES_AT] & ~7 | self.codec_number
        if self.last_delta is not None:
            struct.pack_into(">i", made, _LAST_DELTA_AT, self.last_delta)
        if self.count is not None:
            struct.pack_into(">i", made, _COUNT_AT, self.count)
        if self.signed:
            struct.pack_into(">I", made, _CRC_AT, calc_crc32c(memoryview(made)[_AFTER_CRC:]))
        return bytes(made)

    def place(self, partitions: int) -> int:
        """The partition it is sent to."""
        return 0 if self.key is None else partition_of(self.key, partitions)


@dataclass(frozen=True, slots=True)
class Sent:
    """What the broker has of a record or batch."""

    what: HostileRecord | HostileBatch
    partition: int
    offset: int
    records: int = 1


class HostileProducer:
    """Produces records by librdkafka, as clients in most languages do, and batches byte for byte."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, partitions: int) -> None:
        self._kafka = kafka
        self._names = names
        self._partitions = partitions
        self._producers: dict[str, Producer] = {}
        self.refused: list[str] = []
        """The names of what the client or the broker did not take, with the reason."""

    def _producer(self, codec: str) -> Producer:
        if codec not in self._producers:
            settings = {
                "compression.type": codec,
                "message.timeout.ms": 20_000,
                "message.max.bytes": 4_000_000,
                "log_level": 0,
            }
            self._producers[codec] = Producer({"bootstrap.servers": self._kafka.bootstrap, "linger.ms": 0, **settings})
        return self._producers[codec]

    def send(self, records: Iterable[HostileRecord]) -> list[Sent]:
        """Produce all, and wait for the broker; returns those that it took."""
        found: list[Sent] = []
        for record in records:
            self._produce(record, found)
        for producer in self._producers.values():
            assert producer.flush(30) == 0, "the broker did not answer"
        return found

    def _produce(self, record: HostileRecord, found: list[Sent]) -> None:
        place, producer = record.place(self._partitions), self._producer(record.codec)

        def delivered(fault: object, message: object) -> None:
            if fault is not None:
                self.refused.append(f"{record.name}: {fault}")
            else:
                found.append(Sent(record, place, message.offset()))  # type: ignore[attr-defined]

        more = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        name = self._names.name(record.topic)
        try:
            producer.produce(
                name, record.value, record.key, place, headers=list(record.headers), on_delivery=delivered, **more
            )
        except (KafkaException, ValueError, OverflowError) as fault:
            self.refused.append(f"{record.name}: {fault}")

    async def send_batches(self, batches: Sequence[HostileBatch]) -> list[Sent]:
        """Send batches byte for byte; returns those that the broker took."""
        options = {key: value for key, value in client_options(self._kafka).items() if key != "request_timeout_ms"}
        client = AIOKafkaClient(**options)
        await client.bootstrap()
        try:
            return [sent for batch in batches if (sent := await self._send_batch(client, batch)) is not None]
        finally:
            await client.close()

    async def _send_batch(self, client: AIOKafkaClient, batch: HostileBatch) -> Sent | None:
        name, place = self._names.name(batch.topic), batch.place(self._partitions)
        await client.add_topic(name)
        leader = client.cluster.leader_for_partition(TopicPartition(name, place))
        request = ProduceRequest(None, -1, 20_000, [(name, [(place, batch.raw())])])
        response = await client.send(leader, request)
        code, offset = response.topics[0][1][0][1:3]
        if code:
            self.refused.append(f"{batch.name}: error {code}")
            return None
        return Sent(batch, place, offset, len(batch.values))
