"""What is written by hand of Qdrant's REST: bodies, headers, and what becomes of answers that are none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import BaseModel
from qdrant_client import models

from eunoe.schemas.decisions import Collection, Point, SparseVector, digest_of_text
from eunoe.schemas.errors import Misconfigured, Unavailable
from eunoe.schemas.ports import Search
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from eunoe.workers.stores.vectors.qdrant_rest import Over, QdrantRest, qdrant_address
from eunoe.workers.stores.vectors.qdrant_search import SPARE, SPARE_OF_LATER, Fetch
from eunoe.workers.stores.vectors.wire import STREAMED_BYTES

KEY = "acme/c1"
POINT = Point(
    collection=Collection.TREE, id="0b0c4d1e-0000-5000-8000-000000000001", key=KEY, born=2, seq=3, text="héron",
    dense=np.array([0.6, 0.8], "<f4").tobytes(), sparse=SparseVector(indices=(7, 2**32 - 1), values=(0.5, 1.25)),
)  # fmt: skip


@dataclass(slots=True)
class Double:
    """A server that keeps what it is sent and answers what it is told to."""

    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    answer: web.Response | None = None
    pages: list[Any] = field(default_factory=list)
    """Results of the first requests."""

    async def serve(self, request: web.Request) -> web.Response:
        """Any request."""
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.method, str(request.rel_url), body))
        if request.headers.get("api-key") != "hush":
            return web.json_response({"status": {"error": "no key"}}, status=401)
        if self.pages:
            return web.json_response({"result": self.pages.pop(0)})
        if self.answer is None:
            await asyncio.Event().wait()
        assert self.answer is not None
        return self.answer


@pytest.fixture
def double() -> Double:
    return Double(answer=web.json_response({"result": {"status": "completed"}}))


@pytest.fixture
async def server(double: Double) -> AsyncIterator[TestServer]:
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", double.serve)
    async with TestServer(app) as running:
        yield running


@pytest.fixture
async def client(server: TestServer) -> AsyncIterator[QdrantRest]:
    one = QdrantRest(str(server.make_url("/behind/")), api_key="hush", timeout_s=1)
    yield one
    await one.close()


@pytest.fixture
def index(client: QdrantRest) -> QdrantIndex:
    return QdrantIndex(client, Keys("p", "v1"))


def filtered(body: Any) -> set[str]:
    """The fields that the filters of a request name."""
    if isinstance(body, list):
        return set().union(*map(filtered, body))
    if not isinstance(body, dict):
        return set()
    own = {body["key"]} if body.keys() & {"match", "range"} else set()
    return own.union(*map(filtered, body.values()))


async def test_every_field_that_a_filter_names_is_indexed(index: QdrantIndex, double: Double) -> None:
    """Else a server in strict mode, as in Qdrant's cloud, refuses the request."""
    dense, sparse = {"dense": {"size": 2, "distance": "Cosine"}}, {"bm25": {}}
    config = {"metadata": {"embedder": "e", "dimensions": 2}, "params": {"vectors": dense, "sparse_vectors": sparse}}
    double.pages = [{"config": config}] * (len(Collection) * 6)
    await index.prepare("e", 2)
    indexed = {body["field_name"] for method, url, body in double.asked if method == "PUT" and "/index" in url}
    double.asked.clear()
    double.pages = [
        {},
        {},
        {},
        {"points": [], "next_page_offset": None},
        [{"points": [{"id": "a", "score": 0.1}] * 90}],
    ]
    await index.upsert([POINT], 3, mark=True)
    await index.fence_off(Collection.TREE, [POINT.id], 3)
    await index.remove(Collection.TREE, KEY, [POINT.id])
    assert await index.seqs(Collection.TREE, KEY, [POINT.id]) == {}
    await index._client.search_points(
        "tree", [(Search(Collection.TREE, KEY, 5, dense=POINT.dense, born_before=2), Fetch(5, by_age=True))]
    )
    assert filtered([body for _, _, body in double.asked]) == indexed == {"key", "born", "seq", "fence"}


async def test_a_point_is_sent_with_its_condition(index: QdrantIndex, double: Double) -> None:
    await index.upsert([POINT])
    ((method, path, body),) = double.asked
    assert (method, path) == ("PUT", "/behind/collections/p.v1.tree/points?wait=true")
    (row,) = body["points"]
    assert row["id"] == POINT.id
    assert row["payload"] == {"key": KEY, "born": 2, "seq": 3, "digest": digest_of_text("héron")}
    assert row["vector"]["bm25"] == {"indices": [7, 2**32 - 1], "values": [0.5, 1.25]}
    assert np.asarray(row["vector"]["dense"], "<f4").tobytes() == POINT.dense
    newer, fence = {"key": "seq", "range": {"gt": 3}}, {"key": "fence", "range": {"gt": 0}}
    assert body["update_filter"] == {"must_not": [newer, fence]}


async def test_points_are_loaded_over_whatever_is_there(index: QdrantIndex, double: Double) -> None:
    await index.load(POINT.collection, [POINT])
    ((_, _, body),) = double.asked
    assert list(body) == ["points"]


async def test_searches_of_a_collection_are_one_request(index: QdrantIndex, double: Double) -> None:
    found = [{"points": [{"id": POINT.id, "score": 0.25, "payload": {"born": 4}}]}, {"points": []}]
    double.answer = web.json_response({"result": found})
    hits = await index.search([BY_VECTOR, Search(Collection.TREE, KEY, 3, sparse=POINT.sparse)])
    assert [[hit.id for hit in one] for one in hits] == [[POINT.id], []]
    ((_, path, body),) = double.asked
    assert path == "/behind/collections/p.v1.tree/points/query/batch"
    dense, sparse = body["searches"]
    of_conversation = {"must": [{"key": "key", "match": {"value": KEY}}]}
    assert (dense["filter"], dense["with_payload"]) == (of_conversation, ["born"])
    assert (sparse["using"], sparse["query"]) == ("bm25", {"indices": [7, 2**32 - 1], "values": [0.5, 1.25]})
    assert (sparse["filter"], sparse["with_payload"]) == (of_conversation, False)


async def test_points_of_later_sessions_are_left_to_the_server_where_they_fill_its_answer(
    index: QdrantIndex, double: Double
) -> None:
    later = [{"id": str(at), "score": 0.5, "payload": {"born": 5}} for at in range(1 + SPARE + SPARE_OF_LATER)]
    earlier = {"id": POINT.id, "score": 0.25, "payload": None}
    double.pages = [[{"points": later}], [{"points": [earlier]}]]
    (hits,) = await index.search([Search(Collection.TREE, KEY, 1, dense=POINT.dense, born_before=5)])
    assert [hit.id for hit in hits] == [POINT.id]
    second = double.asked[1][2]["searches"][0]
    assert second["filter"]["must"][1] == {"key": "born", "range": {"lt": 5}}
    assert second["with_payload"] is False


async def test_a_large_body_arrives_whole(index: QdrantIndex, double: Double) -> None:
    indices = tuple(range(STREAMED_BYTES // 2))  # more than three times as many bytes in JSON
    many = POINT.model_copy(update={"sparse": SparseVector(indices=indices, values=(0.5,) * len(indices))})
    await index.upsert([many])
    assert double.asked[0][2]["points"][0]["vector"]["bm25"]["indices"] == list(indices)


async def test_a_server_that_does_not_answer_is_away(index: QdrantIndex, double: Double, server: TestServer) -> None:
    double.answer = None
    with pytest.raises(Unavailable, match=f"127.0.0.1:{server.port}: SocketTimeoutError"):
        await index.upsert([POINT])


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_a_server_that_refuses_is_away(index: QdrantIndex, double: Double, status: int) -> None:
    double.answer = web.json_response({"status": {"error": "not now"}}, status=status)
    with pytest.raises(Unavailable, match=str(status)):
        await index.upsert([POINT])


async def test_a_redirection_is_not_followed_and_says_what_to_set(index: QdrantIndex, double: Double) -> None:
    away = Double()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", away.serve)
    async with TestServer(app) as other:
        place = f"http://localhost:{other.port}"
        double.answer = web.Response(status=307, headers={"Location": f"{place}/collections/c/points"})
        with pytest.raises(Misconfigured, match=f"said 307 and redirects to {place}: .*set EUNOE_QDRANT_URL"):
            await index.upsert([POINT])
    assert not away.asked, "the key and the vectors went to a place that nobody chose"


@pytest.mark.parametrize("text", ["<html>welcome</html>", "[]", '{"hello": 1}'])
async def test_a_server_that_is_no_qdrant_is_named(index: QdrantIndex, double: Double, text: str) -> None:
    for call in (lambda: index.upsert([POINT]), lambda: index.prepare("words-1", 2)):
        double.answer = web.Response(text=text)
        with pytest.raises(Unavailable, match="this is no answer of Qdrant"):
            await call()


async def test_a_key_is_sent(server: TestServer) -> None:
    without = QdrantRest(str(server.make_url("/")), timeout_s=5)
    with pytest.raises(Unavailable, match="401"):
        await QdrantIndex(without, Keys("p", "v1")).upsert([POINT])
    await without.close()


BY_VECTOR = Search(Collection.TREE, KEY, 3, dense=POINT.dense, born_before=5)
BODIES: dict[str, tuple[type[BaseModel], Callable[[QdrantRest], Coroutine[Any, Any, object]]]] = {
    "/c": (models.CreateCollection, lambda rest: rest.create_collection("c", 2, {"embedder": "words-1"})),
    "/c/index": (models.CreateFieldIndex, lambda rest: QdrantIndex(rest, Keys())._index("c")),
    "/c/points": (models.PointsList, lambda rest: rest.write_points("c", [POINT], Over(3, 1, mark=True))),
    "/c/points/delete": (models.FilterSelector, lambda rest: rest.delete_points("c", KEY, [POINT.id])),
    "/c/points/query/batch": (
        models.QueryRequestBatch,
        lambda rest: rest.search_points("c", [(BY_VECTOR, Fetch(3)), (BY_VECTOR, Fetch(3, by_age=True))]),
    ),
    "/c/points/scroll": (models.ScrollRequest, lambda rest: _all(rest.scroll("c", KEY, ids=["7"], payload=("seq",)))),
}


async def _all(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


@pytest.mark.parametrize("path", BODIES)
async def test_qdrants_own_client_would_send_such_a_body(path: str, client: QdrantRest, double: Double) -> None:
    model, call = BODIES[path]
    double.pages = [[] if "query" in path else {"points": [], "next_page_offset": None}] * 3
    await call(client)
    assert double.asked
    for _, asked, body in double.asked:
        assert asked.partition("?")[0] == f"/behind/collections{path}"
        read = model.model_validate(body)  # refuses fields that it does not know
        assert read.model_fields_set == body.keys()


async def test_all_pages_of_a_listing_are_read(client: QdrantRest, index: QdrantIndex, double: Double) -> None:
    point = {"id": "a", "payload": {"seq": 4}}
    double.pages = [
        {"points": [point], "next_page_offset": "b"},
        {"points": [{**point, "id": "b"}], "next_page_offset": None},
    ]
    assert await index.seqs(Collection.TREE, KEY) == {"a": 4, "b": 4}
    assert [body["offset"] for _, _, body in double.asked] == [None, "b"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://qdrant", "http://qdrant:6333"),
        ("https://me:hush@qdrant/behind", "https://qdrant:6333/behind"),
        ("http://[::1]:1/", "http://[::1]:1/"),
    ],
)
def test_an_address_has_a_port_and_no_login(url: str, address: str) -> None:
    assert qdrant_address(url) == address
