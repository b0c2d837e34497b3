"""`KeyStore`: keys of conversations, their tombstones, and the operator's key around them."""

import asyncio
import base64
import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import KEY_BYTES, DataKey, Destroyed, Destruction, KeyState, KeyStore
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.data_keys.redis_keys import RedisKeyStore
from eunoe.workers.stores.data_keys.sqlite_keys import SqliteKeyStore
from eunoe.workers.stores.data_keys.wrapping import OperatorKeys
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.valkeys import Valkey, durable

BROKER = [pytest.mark.broker, pytest.mark.embedded("starts a Valkey of its own")]
KEKS = OperatorKeys({1: bytes(32)})
OTHERS = OperatorKeys({1: bytes([1]) * 32})
NEWER = OperatorKeys({1: bytes(32), 2: bytes([2]) * 32})
KEY = "acme/c1"


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = durable(tmp_path_factory.mktemp("keys"))
    server.start()
    yield server
    server.kill()


@asynccontextmanager
async def on_redis(
    valkey: Valkey, keks: OperatorKeys = KEKS, prefix: str | None = None
) -> AsyncIterator[RedisKeyStore]:
    async with open_redis_url(f"redis://127.0.0.1:{valkey.port}/0", 5) as client:
        yield await RedisKeyStore.open(client, prefix or secrets.token_hex(4), keks)


@asynccontextmanager
async def on_sqlite(path: Path, keks: OperatorKeys = KEKS) -> AsyncIterator[SqliteKeyStore]:
    store = await SqliteKeyStore.open(path, keks)
    yield store
    await store.close()


@pytest.fixture(params=["memory", "cached", "sqlite", pytest.param("redis", marks=BROKER)])
async def keys(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KeyStore]:
    if request.param == "memory":
        yield MemoryKeyStore()
    elif request.param == "cached":
        yield CachedKeys(MemoryKeyStore())
    elif request.param == "sqlite":
        async with on_sqlite(tmp_path / "keys.sqlite") as store:
            yield store
    else:
        async with on_redis(request.getfixturevalue("valkey")) as redis_store:
            yield redis_store


async def test_a_conversation_has_one_current_key(keys: KeyStore) -> None:
    key = await keys.current(KEY)
    assert len(key.secret) == KEY_BYTES
    assert await keys.current(KEY) == key
    assert await keys.get(key.id) == key
    other = await keys.current("acme/c2")
    assert other.id != key.id
    assert other.secret != key.secret


async def test_concurrent_callers_get_one_key(keys: KeyStore) -> None:
    found = await asyncio.gather(*(keys.current(KEY) for _ in range(20)))
    assert len({key.id for key in found}) == 1


async def test_a_replaced_key_can_still_be_read(keys: KeyStore) -> None:
    old = await keys.current(KEY)
    new = await keys.replace(KEY)
    assert await keys.current(KEY) == new != old
    assert await keys.get(old.id) == old
    assert [(record.id, record.state) for record in await keys.keys(KEY)] == [
        (old.id, KeyState.RETIRED),
        (new.id, KeyState.CURRENT),
    ]


@pytest.mark.parametrize("why", Destruction)
async def test_a_destroyed_key_leaves_a_tombstone(keys: KeyStore, why: Destruction) -> None:
    old = await keys.current(KEY)
    other = await keys.current("acme/c2")
    await keys.destroy(old.id, why)
    found = await keys.get(old.id)
    assert isinstance(found, Destroyed)
    assert (found.id, found.why) == (old.id, why)
    (record,) = await keys.keys(KEY)
    assert (record.state, record.why, record.destroyed) == (KeyState.DESTROYED, why, found.at)
    assert await keys.get(other.id) == other


async def test_the_first_reason_stands(keys: KeyStore) -> None:
    key = await keys.current(KEY)
    await keys.destroy(key.id, Destruction.ERASED)
    first = await keys.get(key.id)
    await keys.destroy(key.id, Destruction.REPLACED)
    assert await keys.get(key.id) == first
    assert (await keys.status()).tombstones == 1


async def test_a_new_key_follows_a_destroyed_one(keys: KeyStore) -> None:
    old = await keys.current(KEY)
    await keys.destroy(old.id, Destruction.ERASED)
    new = await keys.current(KEY)
    assert new.id != old.id
    assert await keys.current(KEY) == new


async def test_a_retired_key_is_destroyed_and_the_current_one_stays(keys: KeyStore) -> None:
    old = await keys.current(KEY)
    new = await keys.replace(KEY)
    await keys.destroy(old.id, Destruction.REPLACED)
    assert await keys.current(KEY) == new
    assert isinstance(await keys.get(old.id), Destroyed)


async def test_a_missing_key_is_waited_for(keys: KeyStore) -> None:
    with pytest.raises(Unavailable, match="neither the key 0123 nor its tombstone"):
        await keys.get("0123")


async def test_a_key_that_the_store_never_had_gets_a_tombstone(keys: KeyStore) -> None:
    await keys.destroy("0123", Destruction.ERASED)
    found = await keys.get("0123")
    assert isinstance(found, Destroyed)
    assert (await keys.status()).tombstones == 1
    assert await keys.keys(KEY) == []


async def test_the_status_names_the_store(keys: KeyStore) -> None:
    status = await keys.status()
    assert (status.tombstones, status.kek) == (0, 1)
    assert status.id == (await keys.status()).id != ""


# --- the cache


async def test_a_cached_key_lives_for_a_minute() -> None:
    now, store = [0.0], MemoryKeyStore()
    cached = CachedKeys(store, timer=lambda: now[0])
    old = await cached.current(KEY)
    new = await store.replace(KEY)
    await store.destroy(old.id, Destruction.REPLACED)
    assert (await cached.current(KEY), await cached.get(old.id)) == (old, old)
    now[0] = 60.1
    assert await cached.current(KEY) == new
    assert isinstance(await cached.get(old.id), Destroyed)


class SlowStore(MemoryKeyStore):
    """A key store whose answers to `current` and `get` are on their way until ``arrive`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.arrive = asyncio.Event()

    async def current(self, conversation: str) -> DataKey:
        found = await super().current(conversation)
        await self.arrive.wait()
        return found

    async def get(self, key_id: str) -> DataKey | Destroyed:
        found = await super().get(key_id)
        await self.arrive.wait()
        return found


@pytest.mark.parametrize("change", ["replace", "destroy", "forget"])
async def test_an_answer_that_was_on_its_way_when_the_keys_changed_is_not_cached(change: str) -> None:
    store = SlowStore()
    cached, old = CachedKeys(store), await store.replace(KEY)
    asked = [asyncio.create_task(one) for one in (cached.current(KEY), cached.get(old.id))]
    await asyncio.sleep(0.01)
    match change:
        case "replace":
            await cached.replace(KEY)
        case "destroy":
            await cached.destroy(old.id, Destruction.ERASED)
        case _:
            await store.replace(KEY)
            cached.forget(KEY)
    store.arrive.set()
    assert await asked[0] == await asked[1] == old
    assert (await cached.current(KEY)).id != old.id
    if change == "destroy":
        assert isinstance(await cached.get(old.id), Destroyed)


async def test_a_forgotten_key_is_asked_for_again() -> None:
    store = MemoryKeyStore()
    cached = CachedKeys(store)
    await cached.current(KEY)
    new = await store.replace(KEY)
    cached.forget(KEY)
    assert await cached.current(KEY) == new


# --- the operator's key


@pytest.mark.parametrize(
    "text",
    ["", "short", "0:" + base64.b64encode(bytes(32)).decode(), "!" * 44, base64.b64encode(bytes(33)).decode()],
)
def test_a_malformed_operators_key_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(Refused, match=r"EUNOE_KEYS__KEK: no key of 32 bytes") as refusal:
        OperatorKeys.parse(text, "EUNOE_KEYS__KEK")
    assert not text or text not in str(refusal.value)


def test_operators_keys_have_versions() -> None:
    one, two = base64.b64encode(bytes(32)).decode(), base64.urlsafe_b64encode(b"\xfb" * 32).decode()
    assert OperatorKeys.parse(one, "x") == KEKS
    both = OperatorKeys.parse(f"1:{one}\n3:{two}\n", "x")
    assert (both.by_version, both.version) == ({1: bytes(32), 3: b"\xfb" * 32}, 3)
    with pytest.raises(Refused, match="twice"):
        OperatorKeys.parse(f"{one},1:{two}", "x")
    assert two not in repr(both)
    assert "secret" not in repr(DataKey("id", b"x" * 32))


async def test_another_operators_key_is_refused(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "keys") as store:
        key = await store.current(KEY)
    with pytest.raises(Refused, match=r"keys was not made with this operator's key \(version 1\)"):
        await SqliteKeyStore.open(tmp_path / "keys", OTHERS)
    async with on_sqlite(tmp_path / "keys", NEWER) as store:
        assert await store.get(key.id) == key
        newer = await store.current("acme/c2")
        assert await store.rewrap() == 1
        assert await store.rewrap() == 0
    with pytest.raises(Refused, match="needs version 2 of the operator's key"):
        await SqliteKeyStore.open(tmp_path / "keys", KEKS)
    async with on_sqlite(tmp_path / "keys", OperatorKeys({2: NEWER.by_version[2]})) as store:
        assert (await store.get(key.id), await store.current("acme/c2")) == (key, newer)


@pytest.mark.broker
@pytest.mark.embedded("starts a Valkey of its own")
async def test_another_operators_key_is_refused_on_redis(valkey: Valkey) -> None:
    async with on_redis(valkey, prefix="kek") as store:
        key = await store.current(KEY)
    with pytest.raises(Refused, match="was not made with this operator's key"):
        async with on_redis(valkey, OTHERS, "kek"):
            pass
    async with on_redis(valkey, NEWER, "kek") as store:
        assert await store.rewrap() == 1
    async with on_redis(valkey, OperatorKeys({2: NEWER.by_version[2]}), "kek") as store:
        assert await store.get(key.id) == key


# --- the SQLite file


def wrapped(path: Path, key_id: str) -> bytes:
    with sqlite3.connect(path) as database:
        ((found,),) = database.execute("SELECT sealed FROM keys WHERE id = ?", (key_id,)).fetchall()
    database.close()
    assert isinstance(found, bytes)
    return found


async def test_a_destroyed_key_is_in_no_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    async with on_sqlite(path) as store:
        key = await store.current(KEY)
        sealed = wrapped(path, key.id)
        assert sealed in path.read_bytes()
        assert key.secret not in path.read_bytes()
        assert KEY.encode() not in path.read_bytes()
        await store.destroy(key.id, Destruction.ERASED)
        assert sorted(tmp_path.iterdir()) == [path]
        assert sealed not in path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600


async def test_two_processes_share_the_file(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "keys") as one, on_sqlite(tmp_path / "keys") as other:
        found = await asyncio.gather(*(store.current(f"acme/{n}") for n in range(20) for store in (one, other)))
        assert len({key.id for key in found}) == 20
        await other.destroy(found[0].id, Destruction.ERASED)
        assert isinstance(await one.get(found[0].id), Destroyed)


async def test_a_removed_or_replaced_file_is_away(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    async with on_sqlite(path) as store:
        await store.current(KEY)
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(Unavailable, match="keys: "):
            await store.current("acme/c2")
        shutil.copy(tmp_path / "elsewhere", path)
        with pytest.raises(Unavailable, match="another file stands in its place"):
            await store.current("acme/c2")
        path.unlink()
        (tmp_path / "elsewhere").rename(path)
        await store.current("acme/c2")


async def test_a_full_disk_is_away_and_keeps_what_was_there(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "keys") as store:
        key = await store.current(KEY)
        await store._run(lambda: store._checked().execute("PRAGMA max_page_count = 1"))
        with pytest.raises(Unavailable, match="full"):
            await asyncio.gather(*(store.current(f"acme/full{n}") for n in range(1000)))
        assert await store.get(key.id) == key


async def test_a_store_from_a_backup_is_behind(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "keys") as store:
        old = await store.current(KEY)
        shutil.copy(tmp_path / "keys", tmp_path / "backup")
        await store.destroy(old.id, Destruction.ERASED)
        new = await store.current("acme/c2")
        status = await store.status()
    async with on_sqlite(tmp_path / "backup") as restored:
        behind = await restored.status()
        assert behind.id == status.id
        assert behind.tombstones < status.tombstones
        assert await restored.get(old.id) == old  # until its destruction is replayed
        with pytest.raises(Unavailable):
            await restored.get(new.id)


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"no database" * 1000)
    with pytest.raises(Refused, match="not a database"):
        await SqliteKeyStore.open(tmp_path / "keys", KEKS)
    with pytest.raises(Unavailable):
        await SqliteKeyStore.open(tmp_path, KEKS)


# --- a Redis


def all_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


@pytest.mark.broker
@pytest.mark.embedded("starts a Valkey of its own")
async def test_a_destroyed_key_is_in_no_file_of_redis(valkey: Valkey) -> None:
    async with on_redis(valkey, prefix="files") as store:
        key = await store.current(KEY)
        sealed = str(valkey.ask("HGET", f"files:_keys:key:{key.id}", "sealed")).encode()
        assert sealed in all_bytes(valkey.directory)
        await store.destroy(key.id, Destruction.ERASED)
        assert sealed not in all_bytes(valkey.directory)
        assert isinstance(await store.get(key.id), Destroyed)


@pytest.mark.broker
@pytest.mark.embedded("starts a Valkey of its own")
async def test_a_redis_that_is_away_full_or_forgetful(tmp_path: Path) -> None:
    server = durable(tmp_path / "one")
    server.start()
    try:
        async with on_redis(server, prefix="k") as store:
            key = await store.current(KEY)
            server.ask("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(Unavailable, match=r"OOM|OutOfMemory|maxmemory"):
                await store.current("acme/c2")
            assert await store.get(key.id) == key
            server.kill()
            with pytest.raises(Unavailable, match="Redis at"):
                await store.current("acme/c2")
            server.start()
            assert await store.get(key.id) == key
            server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            with pytest.raises(Refused, match="noeviction"):
                async with on_redis(server, prefix="k"):
                    pass
            server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
            server.ask("CONFIG", "SET", "save", "60 1")
            with pytest.raises(Refused, match="snapshots"):
                async with on_redis(server, prefix="k"):
                    pass
            server.ask("CONFIG", "SET", "appendonly", "no")
            with pytest.raises(Refused, match="appendonly yes"):
                async with on_redis(server, prefix="k"):
                    pass
    finally:
        server.kill()
