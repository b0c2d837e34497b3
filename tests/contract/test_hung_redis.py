"""A Redis that takes connections and answers nothing, as where its machine is stuck."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.gateway.limits import Rate, RedisLimiter
from eunoe.deploy.gateway.redis import RedisNotes
from eunoe.deploy.local.ports import free_port
from eunoe.schemas.errors import Unavailable
from tests.support.command import until
from tests.support.valkeys import Valkey

pytestmark = [pytest.mark.broker, pytest.mark.embedded("stops its server for a while"), pytest.mark.timeout(60)]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    one = Valkey(tmp_path / "valkey", free_port())
    one.start()
    yield one
    one.kill()


async def test_a_client_with_a_limit_gives_a_silent_server_up_and_finds_it_again(valkey: Valkey):
    url = f"redis://127.0.0.1:{valkey.port}/0"
    async with open_redis_url(url) as patient, open_redis_url(url, 0.3) as client:
        notes, limiter = RedisNotes(client), RedisLimiter(client, "test")
        await RedisNotes(patient).write("a", "b", 60)
        assert valkey.process is not None
        valkey.process.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(8):  # with the patience of the stages each would take ten seconds
                with pytest.raises(Unavailable):
                    await notes.read("a")
                rate = Rate(per_second=0.01, burst=1)
                waits = [await limiter.wait_s("key", rate, 1) for _ in range(3)]
        finally:
            valkey.process.send_signal(signal.SIGCONT)
        assert waits[0] == 0  # the process limits by itself
        assert waits[2] > 0

        async def found_again() -> bool:
            with suppress(Unavailable):  # a server that took long to be given up is not asked for a while
                return await notes.read("a") == "b"
            return False

        await until(found_again, 30)
