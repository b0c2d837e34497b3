"""The state store with data keys: documents are sealed, erased ones are passed over, missing keys are waited for."""

from collections.abc import AsyncIterator

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.decisions import Commit, Drop, Ledger, Outbox, OutMessage, Put, Scope
from eunoe.schemas.errors import StateDamaged, Unavailable
from eunoe.schemas.keys import Destruction
from eunoe.schemas.ports import StoredConversation
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.state.transplants import RedisTransplants
from eunoe.workers.text.caches import cache_sizes
from tests.support.memory.key_store import MemoryKeyStore

pytestmark = pytest.mark.broker

KEY = "acme/c1"
UPDATE = Scope("update", KEY)
TABLES = {"update": ["memories", "terms"]}
OUTBOX = Outbox(number=1, messages=(OutMessage(topic="changes", key=KEY, text='"zebrafish"'),))
WRITES = (Put("memories", "m1", '"zebrafish"'), Put("terms", "zebrafish", '{"memories":1}'))


@pytest.fixture
async def client(redis_url: str, keys: Keys) -> AsyncIterator[RedisClient]:
    async with open_redis_url(redis_url) as redis:
        yield redis
        await forget_generation(redis, keys)


@pytest.fixture
def made() -> MemoryKeyStore:
    return MemoryKeyStore()


@pytest.fixture
def sealed(client: RedisClient, keys: Keys, made: MemoryKeyStore) -> RedisStore:
    return RedisStore(client, keys, data_keys=CachedKeys(made))


async def everything(client: RedisClient, keys: Keys) -> bytes:
    """All names and values of the generation, hashes only."""
    found = b""
    async for name in client.scan_iter(match=keys.generation_pattern()):
        if await client.type(name) == b"hash":
            for field, value in (await client.hgetall(name)).items():
                found += name + b"\0" + field + b"\0" + value + b"\n"
    return found


async def test_no_word_of_a_user_is_in_redis(client: RedisClient, keys: Keys, sealed: RedisStore) -> None:
    plain = RedisStore(client, keys)
    assert await plain.commit(UPDATE, Commit(expect=0, applied=1, writes=WRITES, outbox=OUTBOX))
    await plain.park(UPDATE, 2, "blend/1", '"zebrafish"')
    assert (await everything(client, keys)).count(b"zebrafish") == 4
    await forget_generation(client, keys)
    assert await sealed.commit(UPDATE, Commit(expect=0, applied=1, writes=WRITES, outbox=OUTBOX))
    await sealed.park(UPDATE, 2, "blend/1", '"zebrafish"')
    assert b"zebrafish" not in await everything(client, keys)
    assert (await sealed.ledger(UPDATE)).outbox == OUTBOX
    assert await sealed.fetch("update", KEY, "terms", ["none", "zebrafish"]) == [None, '{"memories":1}']
    assert await sealed.scan("update", KEY, "terms") == {"zebrafish": '{"memories":1}'}
    assert await sealed.fetch("update", KEY, "memories", ["m1"]) == ['"zebrafish"']
    assert await sealed.parked(UPDATE, 2) == {"blend/1": '"zebrafish"'}


async def test_plain_documents_from_before_are_read(client: RedisClient, keys: Keys, sealed: RedisStore) -> None:
    plain = RedisStore(client, keys)
    await plain.commit(UPDATE, Commit(expect=0, applied=1, writes=(*WRITES, Put("terms", "old", '{"memories":2}'))))
    assert await sealed.fetch("update", KEY, "terms", ["zebrafish"]) == ['{"memories":1}']
    later = (Put("terms", "zebrafish", '{"memories":3}'), Put("memories", "m2", "2"), Drop("terms", "old"))
    assert await sealed.commit(UPDATE, Commit(expect=1, applied=2, writes=later))
    assert await sealed.fetch("update", KEY, "terms", ["zebrafish", "old"]) == ['{"memories":3}', None]
    assert await sealed.scan("update", KEY, "terms") == {"zebrafish": '{"memories":3}'}
    assert await sealed.scan("update", KEY, "memories") == {"m1": '"zebrafish"', "m2": "2"}
    assert await sealed.commit(UPDATE, Commit(expect=2, applied=3, writes=(Drop("terms", "zebrafish"),)))
    assert await sealed.scan("update", KEY, "terms") == {}


async def test_what_was_erased_is_passed_over(
    client: RedisClient, keys: Keys, sealed: RedisStore, made: MemoryKeyStore
) -> None:
    await sealed.commit(UPDATE, Commit(expect=0, applied=1, writes=WRITES, outbox=OUTBOX))
    await sealed.park(UPDATE, 2, "blend/1", '"zebrafish"')
    await made.destroy((await made.current(KEY)).id, Destruction.ERASED)
    other = RedisStore(client, keys, data_keys=CachedKeys(made))
    for _ in range(2):  # in the same way every time
        assert await other.fetch("update", KEY, "memories", ["m1"]) == [None]
        assert await other.scan("update", KEY, "terms") == {}
        assert await other.parked(UPDATE, 2) == {}
        assert await other.ledger(UPDATE) == Ledger(applied=1, outbox=Outbox(number=1))
    await other.mark_sent(UPDATE, 1)
    assert (await other.ledger(UPDATE)).outbox is None


async def test_a_missing_key_is_waited_for(client: RedisClient, keys: Keys, sealed: RedisStore) -> None:
    await sealed.commit(UPDATE, Commit(expect=0, applied=1, writes=WRITES, outbox=OUTBOX))
    for other in (
        RedisStore(client, keys, data_keys=CachedKeys(MemoryKeyStore())),  # a lost key store, made anew
        RedisStore(client, keys),  # keys are switched off
    ):
        with pytest.raises(Unavailable, match=r"neither the key|EUNOE_KEYS__STORE"):
            await other.fetch("update", KEY, "memories", ["m1"])
        with pytest.raises(Unavailable):
            await other.ledger(UPDATE)


async def test_a_document_that_was_moved_is_not_believed(client: RedisClient, keys: Keys, sealed: RedisStore) -> None:
    await sealed.commit(
        UPDATE, Commit(expect=0, applied=1, writes=(Put("memories", "m1", "1"), Put("memories", "m2", "2")))
    )
    table = keys.table("update", KEY, "memories")
    await client.hset(table, "m2", await client.hget(table, "m1"))
    with pytest.raises(StateDamaged, match="was changed or moved"):
        await sealed.fetch("update", KEY, "memories", ["m2"])


async def test_a_swap_seals_anew_and_fences_who_read_before(
    client: RedisClient, keys: Keys, sealed: RedisStore, made: MemoryKeyStore
) -> None:
    await sealed.commit(UPDATE, Commit(expect=0, applied=1, writes=WRITES))
    sleeper = RedisStore(client, keys, data_keys=CachedKeys(made))
    read = await sleeper.ledger(UPDATE)
    old, new = await made.current(KEY), await made.replace(KEY)
    eraser = RedisStore(client, keys, data_keys=CachedKeys(made))
    rest = StoredConversation(
        {"update": Ledger(applied=1)}, {("update", "terms"): {"kept": "1"}}, {"update": {2: {"s": "e"}}}
    )
    assert await RedisTransplants(eraser, client, keys).swap(KEY, TABLES, rest, read)
    await made.destroy(old.id, Destruction.REPLACED)
    assert not await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=WRITES, key=read.key))
    assert await sleeper.park(UPDATE, 2, "other", "late")  # sealed with the key of the state, whatever is cached
    assert (await sleeper.ledger(UPDATE)).key == new.id
    assert await sleeper.commit(UPDATE, Commit(expect=1, applied=2, writes=(Put("memories", "m3", "3"),), key=new.id))
    fresh = RedisStore(client, keys, data_keys=CachedKeys(made))
    assert await fresh.scan("update", KEY, "terms") == {"kept": "1"}
    assert await fresh.scan("update", KEY, "memories") == {"m3": "3"}
    assert await fresh.parked(UPDATE, 2) == {"s": "e", "other": "late"}


async def test_packed_and_sealed_documents_are_read_side_by_side(
    client: RedisClient, keys: Keys, sealed: RedisStore
) -> None:
    text = '{"session":1,"index":0,"speaker":"Ann","text":"' + "so long " * 20 + '"}'
    for at, store in enumerate((RedisStore(client, keys), sealed)):
        write = Put("memories", f"m{at}", text)
        assert await store.commit(UPDATE, Commit(expect=at, applied=at + 1, writes=(write,)))
    sizes = [len(await client.hget(keys.table("update", KEY, "memories"), f"m{at}")) for at in range(2)]
    assert max(sizes) < len(text) * 0.7
    assert await sealed.scan("update", KEY, "memories") == dict.fromkeys(("m0", "m1"), text)


async def test_a_damaged_document_is_told(client: RedisClient, keys: Keys) -> None:
    store = RedisStore(client, keys)
    await client.hset(keys.table("update", KEY, "memories"), "m1", b"\x02nonsense")
    with pytest.raises(StateDamaged, match=f"{KEY} in update/memories was changed or moved; run `eunoe repair`"):
        await store.fetch("update", KEY, "memories", ["m1"])
    assert await store.ids("update", KEY, "memories") == {"m1"}, "a repair goes on without reading it"


@pytest.mark.parametrize("field", ["applied", "lates", "skipped/x", "outbox/1", "outbox/x"])
async def test_a_damaged_ledger_is_told(client: RedisClient, keys: Keys, field: str) -> None:
    store, scope = RedisStore(client, keys), Scope("update", KEY)
    await store.commit(scope, Commit(expect=0, applied=1))
    await client.hset(keys.ledger(scope), field, "7x")
    told = f"the ledger of update of {KEY} was changed: run `eunoe repair`"
    with pytest.raises(StateDamaged, match=told):
        await store.ledger(scope)
    if field == "applied":
        with pytest.raises(StateDamaged, match=told):
            await store.applied(scope)


async def test_what_is_read_again_is_unpacked_once_unless_it_was_sealed(
    client: RedisClient, keys: Keys, sealed: RedisStore
) -> None:
    text = f'"zebrafish {" ".join(map(str, range(100)))}"'
    for store, is_kept in ((RedisStore(client, keys), True), (sealed, False)):
        assert await store.commit(UPDATE, Commit(expect=0, applied=1, writes=[Put("memories", "m1", text)]))
        before, _ = cache_sizes()["unpacked documents"]
        for _ in range(2):
            assert await store.fetch("update", KEY, "memories", ["m1"]) == [text]
        after, most = cache_sizes()["unpacked documents"]
        assert (before < after < most) == is_kept
        assert is_kept or before == after
        await forget_generation(client, keys)
