"""The record of an index in Redis, the identities of collections in Qdrant, and a sample of conversations."""

import pytest

from eunoe.schemas.decisions import Commit, Put, Scope
from eunoe.workers.stores.records.index_record import IndexRecord, RedisIndexRecord, lost_reason
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.contract.conftest import QDRANT, REDIS

servers = pytest.mark.parametrize("redis", REDIS[1:], indirect=True)


@servers
async def test_the_first_identity_counts_until_the_index_is_restored(redis: RedisClient | None, keys: Keys) -> None:
    assert redis is not None
    record = RedisIndexRecord(redis, keys)
    assert await record.read() == IndexRecord()
    await record.adopt({"a": "1", "b": ""})
    await record.adopt({"a": "2", "c": "3"})
    assert await record.read() == IndexRecord({"a": "1", "b": "", "c": "3"})
    await record.begin("noon")
    await record.begin("one o'clock")
    assert await record.read() == IndexRecord({"a": "1", "b": "", "c": "3"}, "noon")
    await record.finish({"a": "4", "b": "5", "c": "6"})
    assert await record.read() == IndexRecord({"a": "4", "b": "5", "c": "6"})


@servers
async def test_a_sample_holds_conversations_of_the_generation_only(redis: RedisClient | None, keys: Keys) -> None:
    assert redis is not None
    store = RedisStore(redis, keys)
    for number in range(40):
        write = Put("segments", "s", "{}")
        await store.commit(Scope("compress", f"acme/c{number}"), Commit(expect=0, applied=1, writes=(write,)))
    found = await store.sample(2_000)
    assert found
    assert found <= {f"acme/c{number}" for number in range(40)}


@servers
async def test_a_sample_of_documents_is_of_their_table_only(redis: RedisClient | None, keys: Keys) -> None:
    assert redis is not None
    store = RedisStore(redis, keys)
    writes = [Put(table, f"{table}-{number}", f"n{number}") for table in ("segments", "terms") for number in range(40)]
    await store.commit(Scope("compress", "acme/c"), Commit(expect=0, applied=1, writes=tuple(writes)))
    whole = {f"segments-{number}": f"n{number}" for number in range(40)}
    found = await store.sample_documents("compress", "acme/c", "segments", 8)
    assert len(found) == 8
    assert found.items() <= whole.items()
    assert await store.sample_documents("compress", "acme/c", "segments", 100) == whole
    assert await store.sample_documents("compress", "acme/other", "segments", 8) == {}


@pytest.mark.parametrize("index", QDRANT[1:], indirect=True)
async def test_collections_that_were_deleted_come_back_with_another_identity(index: MemoryIndex | QdrantIndex) -> None:
    assert isinstance(index, QdrantIndex)
    await index.prepare("words-1", 8)
    filled = await index.identities()
    assert len(filled) == 3
    assert all(filled.values())
    await index.prepare("words-1", 8)
    assert await index.identities() == filled
    await index.drop_generation()
    assert "are gone" in str(lost_reason(IndexRecord(filled), await index.identities()))
    await index.prepare("words-1", 8)
    assert "are new" in str(lost_reason(IndexRecord(filled), await index.identities()))
