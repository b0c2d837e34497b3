"""A worker whose servers take connections and never answer says what it waits for."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from eunoe.deploy.process.silence import told_if_silent
from eunoe.deploy.process.worker import run_worker
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Unavailable


class Lines(logging.Handler):
    """The messages that were logged, and the first of them as soon as it is."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self.first = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self.first.set()


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    handler, logger = Lines(), logging.getLogger("eunoe.deploy.process.silence")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.mark.slow
async def test_a_worker_says_that_a_server_does_not_answer(lines: Lines) -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        silent = f"{host}:{port}"
        settings = Settings.model_validate({"kafka": silent, "redis_url": f"redis://:secret@{silent}/0"})
        working = asyncio.ensure_future(run_worker(settings, ["intake"]))
        await asyncio.wait_for(lines.first.wait(), 30)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        for writer in held:
            writer.close()
    assert lines.said[0] == f"waiting for Redis at redis://{silent}/0: no answer after 5 s"


async def test_what_answers_soon_is_not_told(lines: Lines) -> None:
    async def answer() -> str:
        return "there"

    async def refuse() -> str:
        raise Unavailable("refused", "Kafka at k:1")

    async def late() -> str:
        await lines.first.wait()
        return "late"

    assert await told_if_silent("Kafka at k:1", answer(), 0.0) == "there"
    with pytest.raises(Unavailable, match="refused"):
        await told_if_silent("Kafka at k:1", refuse(), 0.0)
    await asyncio.sleep(0)
    assert lines.said == []
    assert await told_if_silent("Kafka at k:1", late(), 0.01) == "late"
    assert lines.said == ["waiting for Kafka at k:1: no answer after 0.01 s"]
