"""Servers that are away, come back, or are not what they should be."""

import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from redis.asyncio import Connection, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import ResponseError

from eunoe.deploy.clients.redis import open_redis_url
from eunoe.deploy.local.ports import free_port
from eunoe.schemas.decisions import Collection, Commit, Ledger, Outbox, Point, Put, Scope
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.schemas.ports import Search
from eunoe.schemas.position_ports import ReadPartition
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.positions.redis_positions import RedisHandledPositions
from eunoe.workers.stores.records.answers import RedisAnswers
from eunoe.workers.stores.records.generations import forget_generation
from eunoe.workers.stores.redis.connection import RedisConnection
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.state.redis_store import RedisStore
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support.secured import Certificates, tls_port
from tests.support.servers import QdrantProcess, local_qdrant, valkey

pytestmark = [pytest.mark.broker, pytest.mark.embedded("stops, fills and breaks its servers")]

SCOPE = Scope("segment", "acme/c1")
READER = ReadPartition("segment", "sessions", 0)
KEYS = Keys()


def _redis(port: int, password: str | None = None) -> Redis:
    return Redis(host="127.0.0.1", port=port, password=password, retry=Retry(NoBackoff(), 0), socket_connect_timeout=2)


async def test_no_redis_is_unavailable_and_the_text_tells_where() -> None:
    port = free_port()
    client = _redis(port, password="hush-hush")
    store, log_positions, handled, answers = (
        RedisStore(client, KEYS),
        RedisLogPositions(client, KEYS),
        RedisHandledPositions(client, KEYS),
        RedisAnswers(client, KEYS),
    )
    calls = [
        store.ledger(SCOPE),
        store.commit(SCOPE, Commit(expect=0, applied=1)),
        store.mark_sent(SCOPE, 1),
        store.park(SCOPE, 1, "s", "x"),
        store.scan("segment", "acme/c1", "t"),
        log_positions.answering(0),
        handled.stored(READER),
        handled.store(READER, "", 1, {}),
        handled.take(READER, "", 1),
        answers.get("x"),
        forget_generation(client, KEYS),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}") as caught:
            await call
        assert "hush-hush" not in str(caught.value)
    await client.aclose()


async def test_what_was_committed_survives_a_crash_of_redis(tmp_path: Path) -> None:
    with valkey(tmp_path, durable=True) as server:
        client = _redis(server.port)
        store = RedisStore(client, KEYS)
        commit = Commit(expect=0, applied=1, writes=(Put(table="t", id="1", text="x"),), outbox=Outbox(number=1))
        assert await store.commit(SCOPE, commit)
        server.terminate()
        with pytest.raises(Unavailable):
            await store.ledger(SCOPE)
        await client.aclose()
    with valkey(tmp_path, durable=True) as server:
        client = _redis(server.port)
        store = RedisStore(client, KEYS)
        assert await store.ledger(SCOPE) == Ledger(applied=1, outbox=Outbox(number=1))
        assert not await store.commit(SCOPE, Commit(expect=1, applied=2))  # the server has no scripts yet
        await store.mark_sent(SCOPE, 1)
        assert await store.commit(SCOPE, Commit(expect=1, applied=2))
        await client.aclose()


async def test_a_full_or_read_only_redis_is_unavailable_and_nothing_is_half_done(tmp_path: Path) -> None:
    with valkey(tmp_path) as server:
        client = _redis(server.port)
        store = RedisStore(client, KEYS)
        await store.commit(SCOPE, Commit(expect=0, applied=1, writes=(Put(table="t", id="1", text="x"),)))
        for option, bad, good in (("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")):
            await client.config_set(option, bad)
            with pytest.raises(Unavailable):
                await store.commit(SCOPE, Commit(expect=1, applied=2, writes=(Put(table="t", id="2", text="x"),)))
            await client.config_set(option, good)
        await client.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(Unavailable):
            await store.commit(SCOPE, Commit(expect=1, applied=2, writes=(Put(table="t", id="2", text="x"),)))
        await client.replicaof("NO", "ONE")
        assert await store.ledger(SCOPE) == Ledger(applied=1)
        assert await store.scan("segment", "acme/c1", "t") == {"1": "x"}
        await client.aclose()


async def test_a_refused_password_is_unavailable_and_a_wrong_type_is_not(tmp_path: Path) -> None:
    with valkey(tmp_path) as server:
        client = _redis(server.port)
        await client.set(KEYS.ledger(SCOPE), "not a hash")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await RedisStore(client, KEYS).ledger(SCOPE)
        await client.config_set("requirepass", "right")
        stranger = _redis(server.port, password="wrong-one")
        with pytest.raises(Unavailable) as caught:
            await RedisStore(stranger, KEYS).ledger(SCOPE)
        assert "wrong-one" not in str(caught.value)
        await stranger.aclose()
        await client.aclose()


async def test_a_commit_whose_answer_was_lost_is_told_again_that_it_won(tmp_path: Path) -> None:
    with valkey(tmp_path) as server:
        sent: list[bytes] = []
        once_more = Retry(NoBackoff(), 1)
        pool = ConnectionPool(LosesAnswers, host="127.0.0.1", port=server.port, retry=once_more, sent=sent)
        async with Redis.from_pool(pool) as client:
            store = RedisStore(client, KEYS)
            commit = Commit(expect=0, applied=1, outbox=Outbox(number=1))
            assert await store.commit(SCOPE, commit)
            assert len(sent) == 3  # unknown script, lost answer, the same again
            assert not await store.commit(SCOPE, commit)


class LosesAnswers(Connection):
    """Breaks before the answer to the first script that the server knows."""

    def __init__(self, sent: list[bytes], **options: object) -> None:
        super().__init__(**options)
        self.sent = sent

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        words = command.encode() if isinstance(command, str) else command
        packed = words if isinstance(words, bytes) else b"".join(words)
        if b"EVAL" in packed:
            self.sent.append(packed)
        await super().send_packed_command(packed, check_health)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        answer = await super().read_response(*args, **options)
        if len(self.sent) == 2:
            raise ConnectionLost("closed before the answer")
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with local_qdrant(tmp_path_factory.mktemp("qdrant") / "data") as running:
        yield running


@pytest.fixture
def keys() -> Keys:
    return Keys("absent", secrets.token_hex(6))


@pytest.fixture
async def client(server: QdrantProcess) -> AsyncIterator[QdrantRest]:
    one = QdrantRest(server.url, timeout_s=5)
    yield one
    await one.close()


@pytest.fixture
def index(client: QdrantRest, keys: Keys) -> QdrantIndex:
    return QdrantIndex(client, keys)


async def test_no_qdrant_is_unavailable_and_its_points_survive(server: QdrantProcess, index: QdrantIndex) -> None:
    await index.prepare("words-1", 2)
    point = _point()
    await index.upsert([point])
    server.kill()
    search = Search(Collection.SEGMENTS, point.key, 3, dense=point.dense)
    for call in (index.prepare("words-1", 2), index.upsert([point]), index.search([search]), index.drop_generation()):
        with pytest.raises(Unavailable, match=f"127.0.0.1:{server.port}"):
            await call
    with pytest.raises(Unavailable):
        await index.seqs(Collection.SEGMENTS, point.key)
    server.start()
    assert [hit.id for hit in (await index.search([search]))[0]] == [point.id]
    with pytest.raises(Refused):
        await index.prepare("words-2", 2)


async def test_a_missing_collection_is_waited_for(index: QdrantIndex, keys: Keys) -> None:
    with pytest.raises(Unavailable, match=keys.collection(Collection.SEGMENTS)):
        await index.upsert([_point()])


async def test_a_generation_is_dropped_and_no_other(index: QdrantIndex, client: QdrantRest, keys: Keys) -> None:
    other = QdrantIndex(client, Keys(keys.prefix, f"{keys.generation}x"))
    for one in (index, other):
        await one.prepare("words-1", 2)
        await one.upsert([_point()])
    await index.drop_generation()
    await index.drop_generation()
    assert await other.seqs(Collection.SEGMENTS, "acme/c1") == {_point().id: 1}
    await index.prepare("words-2", 3)
    assert await index.seqs(Collection.SEGMENTS, "acme/c1") == {}


async def test_a_collection_of_somebody_else_is_refused(index: QdrantIndex, client: QdrantRest, keys: Keys) -> None:
    await client.create_collection(keys.collection(Collection.SEGMENTS), 2, {})
    with pytest.raises(Refused, match="does not name its embedder"):
        await index.prepare("words-1", 2)


def _point() -> Point:
    return Point(
        collection=Collection.SEGMENTS,
        id="0b0c4d1e-0000-5000-8000-000000000001",
        key="acme/c1",
        born=1,
        seq=1,
        text="x",
        dense=np.array([1, 0], "<f4").tobytes(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "+cluster", "+sentinel"])
async def test_a_scheme_that_does_not_fit_the_port_is_named_with_the_one_that_does(tmp_path: Path, kind: str) -> None:
    rest = "/master" if kind == "+sentinel" else ""
    with valkey(tmp_path) as server:
        async with tls_port(Certificates.make(tmp_path), server.port) as port:
            for url, advice in (
                (f"redis{kind}://127.0.0.1:{port}{rest}", f"asks for TLS: use rediss{kind}://"),
                (f"rediss{kind}://127.0.0.1:{server.port}{rest}", f"speaks no TLS: use redis{kind}://"),
            ):
                with pytest.raises(Misconfigured) as told:
                    async with open_redis_url(url) as client:
                        await RedisConnection(client).command("GET", "x")
                assert advice in str(told.value)
                assert "\n" not in str(told.value)


async def test_the_port_of_qdrants_grpc_gets_a_hint() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    client = QdrantRest(f"http://127.0.0.1:{port}")
    try:
        with pytest.raises(Unavailable, match=f"Qdrant at 127.0.0.1:{port}: .*is it the port of Qdrant's gRPC"):
            await QdrantIndex(client, KEYS).identities()
    finally:
        await client.close()
        server.stop(None).wait()
