"""A reader of new records, without a broker: denied rights are told, and a stop leaves nothing open."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from eunoe.schemas.errors import Unavailable
from eunoe.streams import follower as following
from eunoe.streams.follower import Follower
from eunoe.streams.settings import KafkaSettings


class Denied:
    """A consumer that may not read its topic."""

    async def getmany(self, **_: object) -> Any:
        raise TopicAuthorizationFailedError("eunoe.replies")


class Slow:
    """Stands in for the functions that connect: each waits until it is told to go on, and counts what is open."""

    def __init__(self, waits_at: str) -> None:
        self.waits_at = waits_at
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()
        self.open = 0

    async def _come(self, place: str) -> None:
        if place == self.waits_at:
            self.reached.set()
            await self.goes_on.wait()

    @asynccontextmanager
    async def adapted(self, *_: object) -> AsyncIterator[tuple["Slow", Any]]:
        await self._come("connect")
        self.open += 1
        try:
            yield self, lambda: None
        finally:
            self.open -= 1

    @asynccontextmanager
    async def scout(self, *_: object, **__: object) -> AsyncIterator["Slow"]:
        yield self

    async def ends(self, _kafka: object, _scout: object, new: list[TopicPartition]) -> dict[TopicPartition, int]:
        await self._come("ends")
        return dict.fromkeys(new, 0)

    def assign(self, _partitions: object) -> None:
        pass

    def seek(self, _partition: object, _offset: int) -> None:
        pass

    async def getmany(self, **_: object) -> Any:
        await asyncio.Event().wait()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("waits_at", ["connect", "ends"])
async def test_a_follower_that_is_stopped_while_it_connects_leaves_nothing_open(waits_at, monkeypatch):
    slow = Slow(waits_at)
    monkeypatch.setattr(following, "open_adapted_consumer", slow.adapted)
    monkeypatch.setattr(following, "open_consumer", slow.scout)
    monkeypatch.setattr(following, "end_offsets", slow.ends)
    follower = Follower(KafkaSettings(), lambda _: None, lambda _: None)
    connecting = asyncio.create_task(follower.follow([TopicPartition("eunoe.replies", 0)]))
    await slow.reached.wait()
    await follower.stop()
    slow.goes_on.set()
    with pytest.raises(Unavailable, match="closed"):
        await connecting
    assert slow.open == 0


@pytest.mark.timeout(20)
async def test_a_right_to_read_that_is_denied_is_told_with_what_to_grant(caplog: pytest.LogCaptureFixture):
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    follower = Follower(KafkaSettings(sasl_username="client"), lambda _: None, told.set_result)
    consumer: Any = Denied()
    with caplog.at_level(logging.ERROR):
        reading = asyncio.create_task(follower._read(consumer))
        assert "denies user client" in await told
        assert "grant Read on topic eunoe.replies" in await told
        reading.cancel()
        await asyncio.wait({reading})
    assert not caplog.records, "no traceback for what an operator has to grant"
