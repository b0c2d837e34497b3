"""The embedded Qdrant over HTTP, by the client that the workers use, and by hand where the client is too polite."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from eunoe.deploy.local.ports import free_port
from eunoe.schemas.decisions import Collection
from eunoe.schemas.errors import Misconfigured
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import QdrantRest
from tests.support.servers import QdrantProcess, local_qdrant

pytestmark = [pytest.mark.broker, pytest.mark.embedded("is about the embedded Qdrant")]

NAME = "eunoe.v1.points"
VECTORS = {"dense": models.VectorParams(size=4, distance=models.Distance.COSINE)}
SPARSE = {"bm25": models.SparseVectorParams()}
BASE = f"/collections/{NAME}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with local_qdrant(tmp_path_factory.mktemp("qdrant") / "data") as running:
        yield running


async def test_a_server_with_a_key_serves_who_has_it(tmp_path: Path) -> None:
    with local_qdrant(tmp_path / "data", key="right") as server:
        async with aiohttp.ClientSession(server.url) as session:

            async def status(path: str, **headers: str) -> int:
                async with session.get(path, headers=headers) as answer:
                    return answer.status

            assert [await status(path) for path in ("/", "/readyz", "/livez", "/healthz")] == [200] * 4
            assert await status("/collections", **{"api-key": "right"}) == 200
            assert await status("/collections", authorization="Bearer right") == 200
            for path in ("/collections", "/metrics", "/collections/x/exists", "/nowhere"):
                assert await status(path) == 401
                assert await status(path, **{"api-key": "wröng"}) == 401
        right, wrong = QdrantRest(server.url, api_key="right"), QdrantRest(server.url, api_key="wrong-one")
        await QdrantIndex(right, Keys()).prepare("e", 2)
        with pytest.raises(Misconfigured, match=r"Qdrant at .* refuses the API key .*EUNOE_QDRANT_API_KEY") as caught:
            await QdrantIndex(wrong, Keys()).prepare("e", 2)
        with pytest.raises(Misconfigured):
            await QdrantIndex(wrong, Keys()).seqs(Collection.TREE, "t/c")
        assert "wrong-one" not in str(caught.value)
        await right.close()
        await wrong.close()


@pytest.fixture
async def client(server: QdrantProcess) -> AsyncIterator[AsyncQdrantClient]:
    client = AsyncQdrantClient(server.url, check_compatibility=False)
    await create(client)
    yield client
    await client.delete_collection(NAME)
    await client.close()


async def create(client: AsyncQdrantClient) -> None:
    await client.create_collection(
        NAME, vectors_config=VECTORS, sparse_vectors_config=SPARSE, metadata={"embedder": "e", "dimensions": 4}
    )
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    await client.create_payload_index(NAME, "key", tenant, wait=True)
    await client.create_payload_index(NAME, "seq", models.PayloadSchemaType.INTEGER, wait=True)


def uid(number: int) -> str:
    return str(UUID(int=number))


def point(number: int, key: str = "a", seq: int = 1, **payload: Any) -> models.PointStruct:
    dense = np.random.default_rng(number).standard_normal(4).tolist()
    sparse = models.SparseVector(indices=[number, 2**32 - 1], values=[1.0, 0.5])
    vector = {"dense": dense, "bm25": sparse}
    return models.PointStruct(id=uid(number), vector=vector, payload={"key": key, "seq": seq, **payload})


def of_key(key: str) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="key", match=models.MatchValue(value=key))])


def older_than(seq: int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="seq", range=models.Range(lt=seq))])


def nearest(vector: Sequence[float], **more: Any) -> models.QueryRequest:
    exact = models.SearchParams(exact=True)
    return models.QueryRequest(query=list(vector), using="dense", params=exact, **more)


async def test_a_collection_tells_what_it_is(client: AsyncQdrantClient) -> None:
    info = await client.get_collection(NAME)
    assert info.config.metadata == {"embedder": "e", "dimensions": 4}
    assert info.config.params.vectors == VECTORS
    assert set(info.config.params.sparse_vectors or {}) == {"bm25"}
    assert {name: index.data_type.value for name, index in info.payload_schema.items()} == {
        "key": "keyword",
        "seq": "integer",
    }
    params = info.payload_schema["key"].params
    assert isinstance(params, models.KeywordIndexParams)
    assert params.is_tenant is True
    assert await client.collection_exists(NAME)
    assert not await client.collection_exists("other")
    assert NAME in {one.name for one in (await client.get_collections()).collections}


async def test_points_come_back_as_they_went_in(client: AsyncQdrantClient) -> None:
    given = point(1, text='안녕\n\0"', deep={"list": [1, 2.5, None, True]})
    await client.upsert(NAME, [given], wait=True)
    (found,) = await client.retrieve(NAME, [uid(1), uid(2)], with_vectors=True)
    assert found.payload == given.payload
    assert isinstance(found.vector, dict)
    assert found.vector["bm25"] == models.SparseVector(indices=[1, 2**32 - 1], values=[1.0, 0.5])
    assert isinstance(given.vector, dict)
    dense = np.array(given.vector["dense"])
    np.testing.assert_allclose(found.vector["dense"], dense / np.linalg.norm(dense), rtol=1e-5)
    (bare,) = await client.retrieve(NAME, [uid(1)], with_payload=["seq"])
    assert (bare.payload, bare.vector) == ({"seq": 1}, None)


async def test_an_older_number_never_overwrites_a_newer(client: AsyncQdrantClient) -> None:
    for seq in (2, 1, 3, 2):
        await client.upsert(NAME, [point(1, seq=seq, text=f"of {seq}")], update_filter=older_than(seq))
    (found,) = await client.retrieve(NAME, [uid(1)])
    assert found.payload == {"key": "a", "seq": 3, "text": "of 3"}


async def test_upserts_at_once_keep_the_newest(client: AsyncQdrantClient) -> None:
    order = np.random.default_rng(0).permutation(np.arange(1, 41)).tolist()
    await asyncio.gather(
        *(client.upsert(NAME, [point(n, seq=seq) for n in range(5)], update_filter=older_than(seq)) for seq in order)
    )
    records = await client.retrieve(NAME, [uid(n) for n in range(5)])
    assert [(one.payload or {})["seq"] for one in records] == [40] * 5


async def test_search_is_exact_filtered_and_in_the_order_asked(client: AsyncQdrantClient) -> None:
    points = [point(n, key="ab"[n % 2], seq=n) for n in range(1, 61)]
    await client.upsert(NAME, points)
    rows = np.array([dict(one.vector)["dense"] for one in points])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query = np.array([0.5, -1.0, 0.25, 2.0])
    scores = rows @ query / np.linalg.norm(query)
    wanted = sorted((n for n in range(60) if n % 2 == 0 and n + 1 < 50), key=lambda n: -scores[n])[:7]
    chosen = models.Filter(must=[*(of_key("b").must or []), *(older_than(50).must or [])])
    word = models.QueryRequest(query=models.SparseVector(indices=[9], values=[2.0]), using="bm25", limit=3)
    dense, sparse, none = await client.query_batch_points(
        NAME, [nearest(query.tolist(), filter=chosen, limit=7), word, nearest(query.tolist(), filter=of_key("c"))]
    )
    assert [one.id for one in dense.points] == [uid(n + 1) for n in wanted]
    np.testing.assert_allclose([one.score for one in dense.points], scores[wanted], atol=1e-5)
    assert [(one.id, one.score) for one in sparse.points] == [(uid(9), 2.0)]
    assert none.points == []


async def test_conditions_mean_what_qdrant_means(client: AsyncQdrantClient) -> None:
    await client.upsert(NAME, [point(1, "a", 1, tag="x"), point(2, "b", 2), point(3, "b", 3, tag="y")])

    async def found(**given: Any) -> list[str]:
        page, _ = await client.scroll(NAME, scroll_filter=models.Filter(**given))
        return [str(one.id) for one in page]

    key = models.FieldCondition(key="key", match=models.MatchAny(any=["b"]))
    tag = models.IsEmptyCondition(is_empty=models.PayloadField(key="tag"))
    assert await found(must=[key]) == [uid(2), uid(3)]
    assert await found(must=[tag]) == [uid(2)]
    assert await found(must_not=[tag, models.HasIdCondition(has_id=[uid(1)])]) == [uid(3)]
    assert await found(should=[tag, models.Filter(must_not=[key])]) == [uid(1), uid(2)]
    assert await found(must=[models.FieldCondition(key="key", match=models.MatchExcept(**{"except": ["b"]}))]) == [
        uid(1)
    ]


async def test_scroll_count_and_delete(client: AsyncQdrantClient) -> None:
    await client.upsert(NAME, [point(n, key="ab"[n % 2]) for n in range(10)])
    seen: list[str] = []
    page: Any = None
    while True:
        found, page = await client.scroll(NAME, scroll_filter=of_key("a"), limit=2, offset=page)
        seen += [str(one.id) for one in found]
        if page is None:
            break
    assert seen == [uid(n) for n in range(0, 10, 2)]
    assert (await client.count(NAME, count_filter=of_key("a"), exact=True)).count == 5
    await client.delete(NAME, models.FilterSelector(filter=of_key("a")), wait=True)
    await client.delete(NAME, models.PointIdsList(points=[uid(1)]), wait=True)
    assert (await client.count(NAME)).count == 4


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with local_qdrant(tmp_path / "data") as server:
        client = AsyncQdrantClient(server.url, check_compatibility=False)
        await create(client)
        await client.upsert(NAME, [point(n, seq=5) for n in range(300)], update_filter=older_than(5))
        await client.create_collection("eunoe.v2.points", vectors_config=VECTORS)
        server.kill()
        (tmp_path / "data" / "collections" / "half-made").mkdir()
        server.start()
        assert (await client.count(NAME)).count == 300
        info = await client.get_collection(NAME)
        assert info.config.metadata == {"embedder": "e", "dimensions": 4}
        assert set(info.payload_schema) == {"key", "seq"}
        names = sorted(one.name for one in (await client.get_collections()).collections)
        assert names == [NAME, "eunoe.v2.points"]
        await client.upsert(NAME, [point(1, seq=4)], update_filter=older_than(4))
        assert (await client.count(NAME, count_filter=older_than(5))).count == 0
        assert await client.delete_collection(NAME)
        server.kill()
        server.start()
        assert not await client.collection_exists(NAME)
        await client.close()


async def test_two_servers_do_not_share_a_directory(server: QdrantProcess) -> None:
    second = QdrantProcess(server.directory, free_port())
    with pytest.raises(RuntimeError, match="in use by process"):
        await asyncio.to_thread(second.start)


# ---- faults

VECTOR = [1.0, 0.0, 0.0, 0.0]
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/points/query", {"query": VECTOR, "using": "dense", "prefetch": []}, "`prefetch` in a query"),
    ("POST", "/points/query", {"query": {"fusion": "rrf"}}, "query by FusionQuery"),
    ("POST", "/points/query", {"query": uid(1), "using": "dense"}, "query by"),
    ("POST", "/points/query", {"query": VECTOR, "using": "none"}, "Not existing vector name error: none"),
    ("POST", "/points/query", {"query": VECTOR[:3], "using": "dense"}, "expected dim: 4, got 3"),
    ("POST", "/points/query", {"query": VECTOR, "using": "dense", "lookup_from": {"collection": "x"}}, "lookup_from"),
    ("POST", "/points/query", {"query": VECTOR, "using": "dense", "limit": 0}, "limit must be"),
    ("POST", "/points/query", {"query": VECTOR, "using": "dense", "params": {"acorn": {"enable": True}}}, "acorn"),
    ("POST", "/points/query", {"query": VECTOR, "using": "dense", "wrong": 1}, "Format error"),
    ("POST", "/points/scroll", {"order_by": "seq"}, "`order_by` in a scroll"),
    ("POST", "/points/scroll", {"filter": {"min_should": {"conditions": [], "min_count": 1}}}, "min_should"),
    ("POST", "/points/scroll", {"filter": {"must": [{"key": "t", "match": {"text": "x"}}]}}, "MatchText"),
    ("POST", "/points/scroll", {"filter": {"must": [{"key": "t"}]}}, "is empty"),
    ("POST", "/points/scroll", {"filter": {"must": [{"key": "t", "range": {"lt": "2020-01-01T00:00:00Z"}}]}}, "times"),
    ("POST", "/points", {"ids": ["no uuid"]}, "neither an unsigned integer nor a UUID"),
    ("PUT", "/points", {"points": [{"id": 1, "vector": {"dense": [1.0]}}]}, "expected dim: 4, got 1"),
    ("PUT", "/points", {"points": [{"id": 1, "vector": {"bm25": {"indices": [1, 1], "values": [1, 2]}}}]}, "unique"),
    ("PUT", "/points", {"points": [{"id": 1, "vector": {"bm25": {"indices": [1], "values": []}}}]}, "0 values"),
    ("PUT", "/points", {"points": [{"id": 1, "vector": {"other": VECTOR}}]}, "Not existing vector name"),
    ("PUT", "/points", {"points": [], "update_mode": "insert_only"}, "update_mode"),
    ("PUT", "/points", {"batch": {"ids": [1], "vectors": [VECTOR]}}, "Format error"),
    ("PUT", "/index", {"field_name": "t", "field_schema": "text"}, "payload index of text"),
    ("POST", "/points/query/groups", {}, "the embedded Qdrant supports only the calls of eunoe"),
    ("PUT", "/points?ordering=strong&odd=1", {"points": []}, "the parameter `odd`"),
]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("method", "path", "body", "told"), REFUSED)
async def test_what_it_cannot_do_is_refused_by_name(
    server: QdrantProcess, method: str, path: str, body: dict[str, Any], told: str
) -> None:
    async with httpx.AsyncClient(base_url=server.url) as http:
        response = await http.request(method, BASE + path, json=body)
        assert 400 <= response.status_code < 500
        assert told in response.json()["status"]["error"]
        count = await http.post(f"{BASE}/points/count", json={})
        assert count.json()["result"] == {"count": 0}


async def test_collections_that_are_there_or_not(server: QdrantProcess, client: AsyncQdrantClient) -> None:
    with pytest.raises(UnexpectedResponse, match="already exists") as fault:
        await client.create_collection(NAME, vectors_config=VECTORS)
    assert fault.value.status_code == 409
    with pytest.raises(UnexpectedResponse, match="Not found: Collection `none`") as fault:
        await client.count("none")
    assert fault.value.status_code == 404
    assert not await client.delete_collection("none")
    async with httpx.AsyncClient(base_url=server.url) as http:
        spec = {"vectors": {"size": 4, "distance": "Cosine"}}
        for name, more, told in (
            ("x%2Fy", {}, "not a collection's name"),
            ("ok", {"quantization_config": {"scalar": {"type": "int8"}}}, "quantization_config"),
            ("ok", {"shard_number": 2}, "`shard_number` other than 1"),
        ):
            response = await http.put(f"/collections/{name}", json={**spec, **more})
            assert response.status_code == 400
            assert told in response.json()["status"]["error"]


async def test_a_broken_body_is_the_requests_fault(server: QdrantProcess, client: AsyncQdrantClient) -> None:
    async with httpx.AsyncClient(base_url=server.url) as http:
        response = await http.put(f"{BASE}/points", content=b"{")
        assert response.status_code == 400
        assert "Format error in JSON body" in response.json()["status"]["error"]
    assert (await client.count(NAME)).count == 0


async def test_an_unnamed_vector_stands_alone(server: QdrantProcess) -> None:
    client = AsyncQdrantClient(server.url, check_compatibility=False)
    await client.create_collection("plain", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    await client.upsert("plain", [models.PointStruct(id=3, vector=[2.0, 1.0], payload={})])
    (hit,) = (await client.query_points("plain", query=[1.0, 1.0], with_vectors=True)).points
    assert (hit.id, hit.score, hit.vector) == (3, 3.0, [2.0, 1.0])
    await client.delete_collection("plain")
    await client.close()
