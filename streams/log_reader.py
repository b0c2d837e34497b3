"""Readers of the log: the sealed topic `log`, where there is a key store, then `conversations`, its inbox."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from eunoe.schemas.keys import KeyStore
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.reader import read_all, read_partition
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import restored
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames


async def read_both(
    kafka: KafkaSettings, names: TopicNames, begin: Mapping[tuple[str, int], int] | None = None
) -> AsyncGenerator[Record]:
    """All records of both topics as they are stored; `log` first: else a record could expire before it is read.

    ``begin`` gives the first offset to read, by topic and partition; the default is the first one there is. Raises as
    `read_all` does.
    """
    for topic in log_topics(names):
        first = {partition: offset for (one, partition), offset in (begin or {}).items() if one == topic}
        async with aclosing(read_all(kafka, names, topic, begin=first)) as records:
            async for record in records:
                yield record


def log_topics(names: TopicNames) -> tuple[Topic, ...]:
    """The topics of the log, in the order in which they are read."""
    return (Topic.CONVERSATIONS,) if names.door_ms is None else (Topic.LOG, Topic.CONVERSATIONS)


class ConversationLog:
    """The log of one conversation. Each read goes on where the last one ended: a partition may hold millions."""

    def __init__(self, kafka: KafkaSettings, names: TopicNames, key: str, partitions: int) -> None:
        self._kafka, self._names, self._key = kafka, names, key.encode()
        self._partition = partition_of(self._key, partitions)
        self._stored: dict[Topic, list[Record]] = {topic: [] for topic in log_topics(names)}
        self._begin = dict.fromkeys(self._stored, 0)

    async def stored(self) -> list[Record]:
        """The records in both topics, as they are stored.

        Raises `Unavailable` when no broker answers, `Refused` where a topic is missing, or the log is sealed and no key
        store is set.
        """
        await check_log_is_open(self._kafka, self._names)
        for topic, stored in self._stored.items():
            records = read_partition(self._kafka, self._names, topic, self._partition, begin=self._begin[topic])
            async with aclosing(records):
                async for record in records:
                    self._begin[topic] = record.offset + 1
                    if record.key == self._key:
                        stored.append(record)
        return [record for stored in self._stored.values() for record in stored]

    async def read(self, keys: KeyStore | None, epoch: int) -> list[Record]:
        """The log as intake took it; raises as `stored` and `restored` do."""
        return await restored(await self.stored(), keys, epoch)
