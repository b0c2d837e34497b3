"""One fixture per port: each test runs on the in-memory and on the real implementation, in its own generation."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.schemas.ports import ActivityList
from eunoe.schemas.position_ports import LogPositions
from eunoe.workers.stores.data_keys.cached import CachedKeys
from eunoe.workers.stores.positions.redis_log_positions import RedisActivityList, RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.answers import AnswerCache, MemoryAnswers, RedisAnswers
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.memory_store import MemoryLogPositions, MemoryStore
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support import given, valkeys
from tests.support.memory.handled_positions import MemoryHandledPositions
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.session import SessionServers

SEVERAL = [pytest.mark.broker, pytest.mark.embedded("starts a cluster and a sentinel of its own")]
REDIS = [
    "memory",
    pytest.param("redis", marks=pytest.mark.broker),
    pytest.param("sealed", marks=pytest.mark.broker),
    pytest.param("cluster", marks=SEVERAL),
    pytest.param("sentinel", marks=SEVERAL),
]
QDRANT = ["memory", pytest.param("server", marks=pytest.mark.broker)]


@pytest.fixture(scope="session")
def redis_url(servers: SessionServers) -> str:
    return servers.redis_url


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkeys.valkey_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.be_patient()
        yield cluster.url


@pytest.fixture(scope="session")
def sentinel_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkeys.valkey_sentinel(tmp_path_factory.mktemp("sentinel")) as sentinel:
        sentinel.be_patient()
        yield sentinel.url


@pytest.fixture(scope="session")
def qdrant_url(servers: SessionServers) -> str:
    return servers.qdrant_url


@pytest.fixture
def keys() -> Keys:
    return Keys("contract", secrets.token_hex(6))


@pytest.fixture(params=REDIS)
async def redis(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[RedisClient | None]:
    """A client as the workers have it, whose generation is removed at the end; None for the one in memory."""
    if request.param == "memory":
        yield None
        return
    kind = "redis" if request.param == "sealed" else request.param
    async with open_redis_url(request.getfixturevalue(f"{kind}_url")) as client:
        yield client
        await forget_generation(client, keys)


@pytest.fixture
def data_keys(request: pytest.FixtureRequest) -> CachedKeys | None:
    """The keys that a store seals its documents with; None: they are plain."""
    return CachedKeys(MemoryKeyStore()) if request.node.callspec.params.get("redis") == "sealed" else None


@pytest.fixture
def store(redis: RedisClient | None, keys: Keys, data_keys: CachedKeys | None) -> MemoryStore | RedisStore:
    return MemoryStore() if redis is None else RedisStore(redis, keys, data_keys=data_keys)


@pytest.fixture
def brief_store(redis: RedisClient | None, keys: Keys, data_keys: CachedKeys | None) -> MemoryStore | RedisStore:
    """A store that keeps the ledgers of lanes for one second."""
    if redis is None:
        return MemoryStore(request_ttl_s=1)
    return RedisStore(redis, keys, request_ttl_s=1, data_keys=data_keys)


@pytest.fixture
def log_positions(redis: RedisClient | None, keys: Keys) -> LogPositions:
    return MemoryLogPositions() if redis is None else RedisLogPositions(redis, keys)


@pytest.fixture
def activity(redis: RedisClient | None, keys: Keys, log_positions: LogPositions) -> ActivityList:
    if redis is None:
        assert isinstance(log_positions, MemoryLogPositions)
        return log_positions
    return RedisActivityList(redis, keys)


@pytest.fixture
def handled_positions(
    redis: RedisClient | None, keys: Keys, store: MemoryStore | RedisStore
) -> MemoryHandledPositions | RedisHandledPositions:
    if isinstance(store, MemoryStore):
        return MemoryHandledPositions(store)
    assert redis is not None
    return RedisHandledPositions(redis, keys)


@pytest.fixture
def answers(redis: RedisClient | None, keys: Keys) -> AnswerCache:
    return MemoryAnswers() if redis is None else RedisAnswers(redis, keys, ttl_s=60)


@pytest.fixture(params=QDRANT)
async def index(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[MemoryIndex | QdrantIndex]:
    if request.param == "memory":
        yield MemoryIndex()
        return
    client = QdrantRest(request.getfixturevalue("qdrant_url"), api_key=given.qdrant_key())
    real = QdrantIndex(client, keys)
    yield real
    await real.drop_generation()
    await client.close()
