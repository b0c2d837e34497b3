"""The work that the streams of a process share."""

import asyncio
from types import SimpleNamespace

import pytest

from eunoe.deploy.gateway import feed_sharing
from eunoe.deploy.gateway.feed_sharing import FeedSharing, FeedText
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.feed import FeedLost, Subscription

pytestmark = pytest.mark.timeout(10)

PLACE = ("v1", 0, 7)
EVENT = FeedText("remembered", b"{}")


class Reader:
    """Reads an event; `away` makes it fail."""

    def __init__(self) -> None:
        self.reads = 0
        self.away = False

    async def __call__(self) -> FeedText:
        self.reads += 1
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("Redis is away")
        return EVENT


async def test_streams_read_an_event_once():
    sharing, read = FeedSharing(), Reader()
    assert await asyncio.gather(*(sharing.event(PLACE, read) for _ in range(50))) == [EVENT] * 50
    assert await sharing.event(PLACE, read) == EVENT
    assert read.reads == 1
    await sharing.event(("v2", 0, 7), read)
    assert read.reads == 2


async def test_a_stream_that_ends_does_not_end_the_read_of_the_others():
    sharing, read = FeedSharing(), Reader()
    first, second = (asyncio.ensure_future(sharing.event(PLACE, read)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == EVENT
    assert read.reads == 1


async def test_a_read_that_fails_is_tried_again():
    sharing, read = FeedSharing(), Reader()
    read.away = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await sharing.event(PLACE, read)
    read.away = False
    assert await sharing.event(PLACE, read) == EVENT
    assert read.reads == 3


async def test_a_few_events_are_kept():
    sharing, read = FeedSharing(), Reader()
    for offset in range(1_000):
        await sharing.event(("v1", 0, offset), read)
    assert len(sharing._events) < 300


class States:
    """`LiveStates` whose looks fail, one after the other, before they show another generation."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)

    async def live(self) -> SimpleNamespace:
        if self.faults:
            raise self.faults.pop(0)
        return SimpleNamespace(generation="v2")


@pytest.mark.parametrize("fault", [Unavailable("Redis is away"), Refused("topics missing"), ZeroDivisionError()])
async def test_a_look_that_fails_is_not_the_last_one(fault, monkeypatch):
    monkeypatch.setattr(feed_sharing, "LOOK_S", 0.0)
    sharing, feed = FeedSharing(), Subscription(lambda _: True)
    with sharing.watched(States(fault), feed, "v1"), pytest.raises(FeedLost, match="another generation"):
        await feed.next()
