"""Readers that are abandoned: their consumers are closed at once, also where whoever closes is cancelled."""

import asyncio
from typing import Any

from eunoe.streams import feed as feeds
from eunoe.streams import plain_consumer
from eunoe.streams.feed import Feed
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

KAFKA = KafkaSettings(bootstrap="127.0.0.1:1")


class Slow:
    """A consumer that takes a while to stop."""

    def __init__(self) -> None:
        self.gate, self.stopping, self.stopped = asyncio.Event(), asyncio.Event(), False

    async def start(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        self.stopping.set()
        await self.gate.wait()
        self.stopped = True


async def test_a_consumer_is_stopped_to_the_end_although_its_reader_is_cancelled_twice():
    slow: Any = Slow()

    async def read() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await plain_consumer._closed(slow)

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    reading.cancel()
    await slow.stopping.wait()
    reading.cancel()
    await asyncio.sleep(0.01)
    slow.gate.set()
    await asyncio.wait({reading})
    assert (slow.stopped, reading.cancelled()) == (True, True)


async def test_a_backlog_that_is_abandoned_is_closed_with_its_subscription(monkeypatch):
    closed: list[int] = []

    async def read_range(*place: Any) -> Any:
        try:
            for offset in range(9):
                yield Record(Topic.REPLIES, 0, offset, b"k", b"", 0, {})
        finally:
            await asyncio.sleep(0)  # as a consumer does
            closed.append(place[3])

    async def follow(places: Any) -> None:
        feed._follower.next.update(dict.fromkeys(places, 9))

    monkeypatch.setattr(feeds, "read_range", read_range)
    feed = Feed(KAFKA, TopicNames(), Topic.REPLIES)
    monkeypatch.setattr(feed._follower, "follow", follow)
    async with feed.subscribe({0: 0}, lambda _: True) as late:
        assert (await late.next()).offset == 0
        assert closed == []
    assert closed == [0]


async def test_a_subscription_that_read_nothing_is_closed_without_fault(monkeypatch):
    async def follow(places: Any) -> None:
        feed._follower.next.update(dict.fromkeys(places, 9))

    feed = Feed(KAFKA, TopicNames(), Topic.REPLIES)
    monkeypatch.setattr(feed._follower, "follow", follow)
    async with feed.subscribe({0: 0}, lambda _: True) as late:
        assert late.backlog is not None
