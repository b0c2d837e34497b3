"""The log of one conversation is read on, not again."""

from collections.abc import AsyncIterator

import pytest

from eunoe.streams import log_reader
from eunoe.streams.log_reader import ConversationLog
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

KAFKA = KafkaSettings(bootstrap="127.0.0.1:1")


def record(topic: Topic, offset: int, key: bytes = b"acme/c") -> Record:
    return Record(topic, 0, offset, key, b"x", 0, {})


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> dict[Topic, list[Record]]:
    """The records of a partition, by topic: more may be added; one that is read is gone, as by retention."""
    held: dict[Topic, list[Record]] = {Topic.LOG: [], Topic.CONVERSATIONS: []}

    async def read_partition(
        _kafka: KafkaSettings, _names: TopicNames, topic: Topic, _partition: int, *, begin: int = 0
    ) -> AsyncIterator[Record]:
        for one in held[topic]:
            assert one.offset >= begin, "it was read before"
            yield one
        held[topic].clear()

    async def is_open(*_: object) -> None:
        pass

    monkeypatch.setattr(log_reader, "read_partition", read_partition)
    monkeypatch.setattr(log_reader, "check_log_is_open", is_open)
    return held


@pytest.mark.parametrize("door_ms", [None, 60_000])
async def test_each_read_has_all_and_asks_for_what_is_new(broker: dict[Topic, list[Record]], door_ms: int | None):
    log = ConversationLog(KAFKA, TopicNames(door_ms=door_ms), "acme/c", 1)
    first = [record(Topic.CONVERSATIONS, 3), record(Topic.CONVERSATIONS, 5)]
    broker[Topic.CONVERSATIONS] += [*first, record(Topic.CONVERSATIONS, 6, b"acme/other")]
    assert await log.stored() == first
    assert await log.stored() == first
    copied, later = record(Topic.LOG, 0), record(Topic.CONVERSATIONS, 7)
    broker[Topic.LOG].append(copied)
    broker[Topic.CONVERSATIONS].append(later)
    sealed = [] if door_ms is None else [copied]
    assert await log.stored() == [*sealed, *first, later]
