"""The file of all writes of a Redis, which an erasure has written anew: a receipt says so only where it was."""

import resource
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from eunoe.deploy.generations.erase.files import rewrite_redis
from tests.contract.test_data_keys import all_bytes
from tests.support.valkeys import Valkey, durable, until_async

pytestmark = [pytest.mark.broker, pytest.mark.embedded("starts a Valkey of its own")]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = durable(tmp_path)
    server.start()
    yield server
    server.kill()


async def test_a_file_that_could_not_be_rewritten_is_named_and_later_rewritten(valkey: Valkey) -> None:
    async with Redis(port=valkey.port) as redis:
        await redis.set("large", secrets.token_bytes(3 << 20))
        await redis.set("k", "Zanzibar")
        await redis.delete("k")
        assert valkey.process is not None
        before = resource.prlimit(valkey.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(valkey.process.pid, resource.RLIMIT_FSIZE, (1 << 20, before[1]))  # as on a disk nearly full
        (left,) = await rewrite_redis(redis)
        assert (left.place, left.until) == ("redis: append-only file", "BGREWRITEAOF")
        assert left.why == "not rewritten: BGREWRITEAOF failed, see its log"
        assert b"Zanzibar" in all_bytes(valkey.directory)
        resource.prlimit(valkey.process.pid, resource.RLIMIT_FSIZE, before)
        assert await rewrite_redis(redis) == ()
        await until_async(lambda: b"Zanzibar" not in all_bytes(valkey.directory), "the old file stays")
