"""Readers of the log: the sealed topic `log`, where there is a key store, then `conversations`, its inbox."""

from collections.abc import AsyncIterator, Mapping

from eunoe.schemas.keys import KeyStore
from eunoe.streams.admin import check_log_is_open
from eunoe.streams.reader import read_all, read_partition
from eunoe.streams.record import Record
from eunoe.streams.sealed_log import restored
from eunoe.streams.settings import KafkaSettings, partition_of
from eunoe.streams.topics import Topic, TopicNames


async def read_both(
    kafka: KafkaSettings, names: TopicNames, begin: Mapping[tuple[str, int], int] | None = None
) -> AsyncIterator[Record]:
    """All records of both topics as they are stored; `log` first: else a record could expire before it is read.

    ``begin`` gives the first offset to read, by topic and partition; the default is the first one there is. Raises as
    `read_all` does.
    """
    for topic in log_topics(names):
        first = {partition: offset for (one, partition), offset in (begin or {}).items() if one == topic}
        async for record in read_all(kafka, names, topic, begin=first):
            yield record


def log_topics(names: TopicNames) -> tuple[Topic, ...]:
    """The topics of the log, in the order in which they are read."""
    return (Topic.CONVERSATIONS,) if names.door_ms is None else (Topic.LOG, Topic.CONVERSATIONS)


async def read_stored(kafka: KafkaSettings, names: TopicNames, key: str, partitions: int) -> list[Record]:
    """The records of one conversation in both topics, as they are stored.

    Raises `Unavailable` when no broker answers, `Refused` where a topic is missing, or the log is sealed and no key
    store is set.
    """
    await check_log_is_open(kafka, names)
    raw = key.encode()
    partition = partition_of(raw, partitions)
    return [
        record
        for topic in log_topics(names)
        async for record in read_partition(kafka, names, topic, partition)
        if record.key == raw
    ]


async def read_conversation(
    kafka: KafkaSettings, names: TopicNames, keys: KeyStore | None, key: str, partitions: int, epoch: int
) -> list[Record]:
    """The log of one conversation; raises as `read_stored` and `restored` do."""
    return await restored(await read_stored(kafka, names, key, partitions), keys, epoch)
