"""What a reader of new records says where it may not read, without a broker."""

import asyncio
import logging
from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from eunoe.streams.follower import Follower
from eunoe.streams.settings import KafkaSettings


class Denied:
    """A consumer that may not read its topic."""

    async def getmany(self, **_: object) -> Any:
        raise TopicAuthorizationFailedError("eunoe.replies")


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
