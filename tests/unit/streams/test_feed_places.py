"""Places that a feed is to begin at, without a broker: those ahead of what it has read, and those behind the end."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from aiokafka import TopicPartition

from eunoe.streams import feed as feeds
from eunoe.streams.feed import Feed
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

READ, END = 3, 5
"""The offsets up to which this process has read, and up to which the broker has records."""


class Reader:
    """Has read each partition up to `READ`."""

    def __init__(self, *_: object, **__: object) -> None:
        self.next: dict[TopicPartition, int] = {}

    async def follow(self, partitions: Iterable[TopicPartition]) -> None:
        self.next |= dict.fromkeys(partitions, READ)


@pytest.fixture
def feed(monkeypatch) -> Feed:
    @asynccontextmanager
    async def scout(*_: object, **__: object) -> AsyncIterator[None]:
        yield None

    async def ends(_kafka: object, _scout: object, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, END)

    monkeypatch.setattr(feeds, "Follower", Reader)
    monkeypatch.setattr(feeds, "open_consumer", scout)
    monkeypatch.setattr(feeds, "end_offsets", ends)
    return Feed(KafkaSettings(bootstrap="nowhere:1"), TopicNames(), Topic.CHANGES)


@pytest.mark.parametrize(
    ("begin", "begins", "is_lost"),
    [
        ({0: None, 1: None}, {0: READ, 1: READ}, False),
        ({0: 1, 1: READ}, {0: 1, 1: READ}, False),
        ({0: 1, 1: END}, {0: 1, 1: END}, False),
        ({0: 1, 1: END + 1}, {0: READ, 1: READ}, True),
    ],
)
async def test_a_place_behind_the_end_is_lost_and_one_that_is_only_not_read_yet_is_kept(feed, begin, begins, is_lost):
    async with feed.subscribe(begin, lambda _: True) as subscription:
        assert (subscription.begin, subscription.lost_place) == (begins, is_lost)
        assert (subscription.backlog is None) == all(offset >= READ for offset in begins.values())
