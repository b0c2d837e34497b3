"""Readers of the log: the sealed topic `log`, where there is a key store, then `conversations`, its inbox."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from eunoe.schemas.keys import KeyStore
from eunoe.streams.reader import read_all
from eunoe.streams.reading_on import Place, ReadingOn, TopicReader
from eunoe.streams.record import Record
from eunoe.streams.sealed.log import restored
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames


async def read_both(
    kafka: KafkaSettings, names: TopicNames, begin: Mapping[tuple[str, int], int]
) -> AsyncGenerator[Record]:
    """All records of both topics as they are stored; `log` first: else a record could expire before it is read.

    ``begin`` gives the first offset to read, by topic and partition; without one it is the first there is. Raises as
    `read_all` does.
    """
    for topic in log_topics(names):
        first = {partition: offset for (one, partition), offset in begin.items() if one == topic}
        async with aclosing(read_all(kafka, names, topic, begin=first)) as records:
            async for record in records:
                yield record


def log_topics(names: TopicNames) -> tuple[Topic, ...]:
    """The topics of the log, in the order in which they are read."""
    return (Topic.CONVERSATIONS,) if names.door_ms is None else (Topic.LOG, Topic.CONVERSATIONS)


class ConversationLogs:
    """The logs of conversations that are worked on one after the other: a partition is read once for many of them."""

    def __init__(self, reader: TopicReader, names: TopicNames, partitions: int) -> None:
        topics = log_topics(names)

        def places(key: str) -> tuple[Place, ...]:
            partition = partition_of(key.encode(), partitions)
            return tuple((topic, partition) for topic in topics)

        self._reader, self.reading = reader, ReadingOn(reader, places, key_of)

    async def stored(self, key: str) -> list[Record]:
        """The records of a conversation in both topics, as they are stored.

        Raises `Unavailable` when no broker answers, `Refused` where a topic is missing, or the log is sealed and no key
        store is set.
        """
        await self._reader.check()
        found = await self.reading.of(key)
        return [record for records in found.values() for record in records]

    async def read(self, key: str, keys: KeyStore | None, epoch: int) -> list[Record]:
        """The log of a conversation as intake took it; raises as `stored` and `restored` do."""
        return await restored(await self.stored(key), keys, epoch)


def key_of(record: Record) -> str | None:
    """The key of a record as text; `None` where it has none, or one that is no text."""
    try:
        return None if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        return None
