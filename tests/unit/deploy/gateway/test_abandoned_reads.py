"""Readers that are abandoned: their consumers are closed at once, also where whoever closes is cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from eunoe.deploy.gateway import kafka as gateway_log
from eunoe.deploy.gateway import letters
from eunoe.deploy.gateway.kafka import KafkaLog
from eunoe.schemas.errors import Unavailable
from eunoe.streams import feed as feeds
from eunoe.streams import plain_consumer
from eunoe.streams.feed import Feed
from eunoe.streams.record import Record
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import Topic, TopicNames

KAFKA = KafkaSettings(bootstrap="127.0.0.1:1")


class Slow:
    """A consumer that takes a while to start and to stop."""

    def __init__(self) -> None:
        self.gate, self.stopping, self.stopped = asyncio.Event(), asyncio.Event(), False
        self.begun, self.started, self.given_up = asyncio.Event(), False, False

    async def start(self) -> None:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.given_up = True
            raise
        self.started = True

    async def stop(self) -> None:
        self.stopping.set()
        await self.gate.wait()
        self.stopped = True


def feed_with(monkeypatch: pytest.MonkeyPatch, read_range: Any) -> Feed:
    """A feed of partition 0, which ends at offset 9 and is read by ``read_range``."""

    async def follow(places: Any) -> None:
        feed._follower.next.update(dict.fromkeys(places, 9))

    monkeypatch.setattr(feeds, "read_range", read_range)
    feed = Feed(KAFKA, TopicNames(), Topic.REPLIES)
    monkeypatch.setattr(feed._follower, "follow", follow)
    return feed


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


@pytest.mark.parametrize("answers", [True, False])
async def test_a_start_that_is_cancelled_goes_on_until_it_has_connected_or_takes_too_long(monkeypatch, answers: bool):
    slow: Any = Slow()
    if not answers:
        monkeypatch.setattr(plain_consumer, "_START_S", 0.01)
    starting = asyncio.ensure_future(plain_consumer._start(slow, KAFKA))
    await slow.begun.wait()
    starting.cancel()
    if answers:
        await asyncio.sleep(0)
        slow.gate.set()
    await asyncio.wait({starting})
    assert (slow.started, slow.given_up, starting.cancelled()) == (answers, not answers, True)


async def test_a_backlog_whose_reader_is_cancelled_is_closed_at_once(monkeypatch):
    begun, closed = asyncio.Event(), []

    async def read_range(*place: Any) -> Any:
        try:
            yield Record(Topic.REPLIES, 0, 0, b"k", b"", 0, {})
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as a consumer does
            closed.append(place[3])

    feed = feed_with(monkeypatch, read_range)
    async with feed.subscribe({0: 0}, lambda _: True) as late:
        reading = asyncio.ensure_future(late.next())
        await begun.wait()
        reading.cancel()
        await asyncio.wait({reading})
        assert closed == [0]


async def test_a_reader_that_takes_its_time_keeps_neither_a_consumer_nor_a_turn(monkeypatch):
    at_work: list[tuple[int, int]] = []
    turns: list[str] = []

    async def read_range(*place: Any) -> Any:
        at_work.append(place[4])
        try:
            for offset in range(*place[4]):
                yield Record(Topic.REPLIES, 0, offset, b"k" if offset % 2 else b"other", b"", 0, {})
        finally:
            at_work.pop()

    @asynccontextmanager
    async def turn() -> AsyncIterator[None]:
        turns.append("begun")
        yield
        turns.append("ended")

    monkeypatch.setattr(feeds, "MAX_WAITING", 2)
    feed = feed_with(monkeypatch, read_range)
    async with feed.subscribe({0: 0}, lambda key: key == b"k") as late:
        late.turn = turn
        for count, offset in enumerate((1, 3, 5, 7)):
            assert (await late.next()).offset == offset
            assert (at_work, turns) == ([], ["begun", "ended"] * (count // 2 + 1))


async def test_a_page_of_a_backlog_ends_in_time_and_goes_on_where_it_was(monkeypatch):
    pages: list[tuple[int, int]] = []

    async def read_range(*place: Any) -> Any:
        pages.append(place[4])
        for offset in range(*place[4]):
            yield Record(Topic.REPLIES, 0, offset, b"k" if offset == 8 else b"other", b"", 0, {})

    monkeypatch.setattr(feeds, "PAGE_S", 0.0)
    feed = feed_with(monkeypatch, read_range)
    async with feed.subscribe({0: 5}, lambda key: key == b"k") as late:
        assert (await late.next()).offset == 8
    assert pages == [(5, 9), (6, 9), (7, 9), (8, 9)]


async def test_a_subscription_that_read_nothing_is_closed_without_fault(monkeypatch):
    feed = feed_with(monkeypatch, None)
    async with feed.subscribe({0: 0}, lambda _: True) as late:
        assert late.backlog is not None


class Reads:
    """Reads of one record after the other; each takes a moment to close its consumer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.closed = 0
        for name in ("read_range", "read_all"):
            monkeypatch.setattr(gateway_log, name, self.read)

    async def read(self, *_: Any, **_more: Any) -> Any:
        try:
            for offset in range(9):
                yield Record(Topic.DEAD_LETTERS, 0, offset, b"k", b"", 0, {})
        finally:
            await asyncio.sleep(0)
            self.closed += 1


async def test_a_read_of_the_gateway_is_closed_to_the_end(monkeypatch):
    reads, log = Reads(monkeypatch), KafkaLog(KAFKA, TopicNames())
    for count, records in enumerate((log.read_range(Topic.REPLIES, 0, 0), log.read_all(Topic.REPLIES, {}))):
        async with aclosing(records):
            assert (await anext(records)).offset == 0
            assert reads.closed == count
        assert reads.closed == count + 1


async def test_an_index_of_letters_that_stops_in_the_middle_closes_its_read(monkeypatch):
    async def away(*_: Any) -> None:
        raise Unavailable("the store of data keys is away")

    reads = Reads(monkeypatch)
    monkeypatch.setattr(letters, "open_letter", away)
    index = letters.LetterIndex(lambda: KafkaLog(KAFKA, TopicNames()))
    with pytest.raises(Unavailable):
        await index.of_tenant("acme")
    assert reads.closed == 1
