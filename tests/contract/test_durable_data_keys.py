"""Data keys on a Redis whose disk or rewriting fails: none is used that may be lost, none stays that is destroyed."""

import asyncio
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import SecretStr
from redis import exceptions as faults
from redis.asyncio import Redis

from eunoe.deploy.clients.key_checks import destroy_again
from eunoe.deploy.settings import Settings
from eunoe.deploy.settings.sections import KeySettings
from eunoe.schemas.erasure import ErasureDone
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import DataKey, Destroyed, Destruction
from eunoe.workers.stores.data_keys import redis_keys as data_keys_redis
from eunoe.workers.stores.data_keys.redis_keys import RedisKeyStore
from eunoe.workers.stores.erasures.sqlite_ledger import SqliteErasures
from eunoe.workers.stores.redis import file_rewrite
from tests.contract.test_data_keys import NEWER, all_bytes, on_redis
from tests.support.valkeys import Valkey, durable

pytestmark = [pytest.mark.broker, pytest.mark.embedded("starts a Valkey of its own")]
KEY = "acme/c1"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = durable(tmp_path_factory.mktemp("keys"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def prefix() -> str:
    return secrets.token_hex(4)


@pytest.fixture
async def store(valkey: Valkey, prefix: str) -> AsyncIterator[RedisKeyStore]:
    async with on_redis(valkey, prefix=prefix) as opened:
        yield opened


@pytest.fixture
def hanging(valkey: Valkey, monkeypatch: pytest.MonkeyPatch, store: RedisKeyStore) -> Iterator[None]:
    """While this lasts, no write reaches the disk; the store was opened before."""
    monkeypatch.setattr(data_keys_redis, "_SYNC_MS", 100)
    valkey.ask("CONFIG", "SET", "appendfsync", "no")
    yield
    valkey.ask("CONFIG", "SET", "appendfsync", "always")


class Rewrites:
    """Counts the files that are begun to be written anew; the first ``failing`` ones meet a server that hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.failing = 0, 0
        real = Redis.bgrewriteaof

        async def begin(redis: Redis) -> Any:
            if self.failing:
                self.failing -= 1
                raise faults.TimeoutError("no reply")
            self.begun += 1
            return await real(redis)

        monkeypatch.setattr(Redis, "bgrewriteaof", begin)


@pytest.fixture
def rewrites(monkeypatch: pytest.MonkeyPatch) -> Rewrites:
    return Rewrites(monkeypatch)


def sealed_of(valkey: Valkey, prefix: str, key: DataKey) -> bytes:
    found = str(valkey.ask("HGET", f"{prefix}:_keys:key:{key.id}", "sealed")).encode()
    assert found in all_bytes(valkey.directory)
    return found


# --- a new key reaches the disk before it is used


@pytest.mark.parametrize("made_by", ["current", "replace"])
@pytest.mark.usefixtures("hanging")
async def test_a_key_that_is_not_on_disk_is_never_used(
    made_by: str, valkey: Valkey, prefix: str, store: RedisKeyStore
) -> None:
    with pytest.raises(Unavailable, match="not on disk"):
        await getattr(store, made_by)(KEY)
    for _ in range(2):
        with pytest.raises(Unavailable, match="not on disk"):
            await store.current(KEY)
    valkey.ask("CONFIG", "SET", "appendfsync", "always")
    key = await store.current(KEY)
    (record,) = await store.keys(KEY)
    assert record.id == key.id
    async with on_redis(valkey, prefix=prefix) as other:
        assert await other.current(KEY) == key


async def test_a_key_from_before_is_written_once_more(
    valkey: Valkey, prefix: str, store: RedisKeyStore, request: pytest.FixtureRequest
) -> None:
    key = await store.current(KEY)
    place = f"{prefix}:_keys:key:{key.id}"
    valkey.ask("HDEL", place, "synced")
    request.getfixturevalue("hanging")
    with pytest.raises(Unavailable, match="not on disk"):
        await store.current(KEY)
    valkey.ask("CONFIG", "SET", "appendfsync", "always")
    assert await store.current(KEY) == key
    assert valkey.ask("HGET", place, "synced") == "1"
    valkey.ask("CONFIG", "SET", "appendfsync", "no")
    assert await store.current(KEY) == key  # known to be on disk


async def test_a_key_that_is_made_by_two_at_once_is_on_disk_for_both(
    valkey: Valkey, prefix: str, store: RedisKeyStore
) -> None:
    async with on_redis(valkey, prefix=prefix) as other:
        found = await asyncio.gather(*(one.current(KEY) for one in (store, other) for _ in range(5)))
    assert len({key.id for key in found}) == 1
    assert valkey.ask("HGET", f"{prefix}:_keys:key:{found[0].id}", "synced") == "1"


@pytest.mark.usefixtures("hanging")
async def test_a_server_that_leaves_its_file_to_the_system_is_refused(valkey: Valkey) -> None:
    with pytest.raises(Refused, match=r"appendfsync no\): set appendfsync always there, or everysec"):
        async with on_redis(valkey):
            pass


# --- a destroyed key leaves the file


async def test_a_destruction_is_repeated_until_the_file_was_written_anew(
    valkey: Valkey, prefix: str, store: RedisKeyStore, rewrites: Rewrites
) -> None:
    key = await store.current(KEY)
    sealed = sealed_of(valkey, prefix, key)
    rewrites.failing = 2
    for _ in range(2):
        with pytest.raises(Unavailable):
            await store.destroy(key.id, Destruction.ERASED)
    assert isinstance(await store.get(key.id), Destroyed)
    assert sealed in all_bytes(valkey.directory)
    await store.destroy(key.id, Destruction.ERASED)
    assert sealed not in all_bytes(valkey.directory)
    assert (await store.status()).tombstones == 1
    await store.destroy(key.id, Destruction.ERASED)
    assert rewrites.begun == 1


async def test_a_key_that_is_destroyed_while_it_is_wrapped_anew_stays_destroyed(
    valkey: Valkey, prefix: str, store: RedisKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, left = await store.current(KEY), await store.current("acme/c2")
    async with on_redis(valkey, NEWER, prefix) as wrapping:
        read = wrapping._fields

        async def overtaken(key_id: str) -> dict[str, str]:
            fields = await read(key_id)
            if key_id == key.id:
                await store.destroy(key_id, Destruction.ERASED)
            return fields

        monkeypatch.setattr(wrapping, "_fields", overtaken)
        assert await wrapping.rewrap() == 1
        monkeypatch.undo()
        assert await wrapping.get(left.id) == left
    assert isinstance(await store.get(key.id), Destroyed)
    assert valkey.ask("HMGET", f"{prefix}:_keys:key:{key.id}", "version", "sealed") == [None, None]


async def test_a_destroyed_key_that_came_back_is_destroyed_again(
    valkey: Valkey, prefix: str, store: RedisKeyStore, rewrites: Rewrites
) -> None:
    key = await store.current(KEY)
    await store.destroy(key.id, Destruction.ERASED)
    place, back = f"{prefix}:_keys:key:{key.id}", secrets.token_hex(16)
    valkey.ask("HSET", place, "version", "2", "sealed", back)  # by a process that wraps without looking
    assert back.encode() in all_bytes(valkey.directory)
    rewrites.failing = 1
    with pytest.raises(Unavailable):
        await store.destroy(key.id, Destruction.ERASED)
    await store.destroy(key.id, Destruction.ERASED)
    assert valkey.ask("HMGET", place, "version", "sealed") == [None, None]
    assert back.encode() not in all_bytes(valkey.directory)
    assert (await store.status()).tombstones == 1


async def test_one_rewriting_serves_all_tombstones_before_it(
    valkey: Valkey, prefix: str, store: RedisKeyStore, rewrites: Rewrites
) -> None:
    made = [await store.current(f"acme/{number}") for number in range(5)]
    sealed = [sealed_of(valkey, prefix, key) for key in made]
    rewrites.failing = len(made)
    for key in made:
        with pytest.raises(Unavailable):
            await store.destroy(key.id, Destruction.REPLACED)
    for key in made:
        await store.destroy(key.id, Destruction.REPLACED)
    assert rewrites.begun == 1
    there = all_bytes(valkey.directory)
    assert not any(one in there for one in sealed)


async def test_tombstones_from_before_cost_one_rewriting(
    valkey: Valkey, prefix: str, store: RedisKeyStore, rewrites: Rewrites
) -> None:
    made = [await store.current(f"acme/{number}") for number in range(3)]
    for key in made:
        await store.destroy(key.id, Destruction.REPLACED)
    valkey.ask("DEL", f"{prefix}:_keys:rewritten")
    rewrites.begun = 0
    for key in made:
        await store.destroy(key.id, Destruction.REPLACED)
    assert rewrites.begun == 1


async def test_processes_that_destroy_at_once_wait_for_each_other(
    valkey: Valkey, prefix: str, store: RedisKeyStore
) -> None:
    made = [await store.current(f"acme/{number}") for number in range(10)]
    sealed = [sealed_of(valkey, prefix, key) for key in made]
    async with on_redis(valkey, prefix=prefix) as other:
        await asyncio.gather(
            *((store, other)[at % 2].destroy(key.id, Destruction.ERASED) for at, key in enumerate(made))
        )
    there = all_bytes(valkey.directory)
    assert not any(one in there for one in sealed)


async def test_a_rewriting_that_takes_too_long_is_waited_for(
    store: RedisKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Redis) -> None:
        await asyncio.sleep(60)

    key = await store.current(KEY)
    monkeypatch.setattr(data_keys_redis, "_REWRITE_S", 0.1)
    monkeypatch.setattr(file_rewrite, "files_at_rest", never)
    with pytest.raises(Unavailable, match="BGREWRITEAOF takes too long"):
        await store.destroy(key.id, Destruction.ERASED)


async def test_a_replay_finishes_one_that_was_interrupted(
    valkey: Valkey, prefix: str, store: RedisKeyStore, rewrites: Rewrites, tmp_path: Path
) -> None:
    key = await store.current(KEY)
    sealed = sealed_of(valkey, prefix, key)
    receipt = orjson.dumps({"keys": [{"id": key.id, "why": "erased"}]}).decode()
    ledger = SqliteErasures(tmp_path / "ledger.sqlite")
    await ledger.finish(ErasureDone(request_id="r", key=KEY, at=datetime.now(UTC), receipt=receipt))
    settings = Settings(
        prefix=prefix,
        erasures=SecretStr(str(tmp_path / "ledger.sqlite")),
        keys=KeySettings(
            store=SecretStr(f"redis://127.0.0.1:{valkey.port}/0"), kek=SecretStr(b64encode(bytes(32)).decode())
        ),
    )
    rewrites.failing = 1
    with pytest.raises(Unavailable):
        await destroy_again(settings)
    assert sealed in all_bytes(valkey.directory)
    assert await destroy_again(settings) == 0
    assert sealed not in all_bytes(valkey.directory)
