"""The calls of Qdrant's REST API that a worker makes.

qdrant-client is not used for them: its import builds a pydantic model of every type of the API, which takes two seconds
of processor time and 40 MB of each process. It also validates every point, parses an answer by trying all possible
types, and opens a connection per request to a local server.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import numpy as np
import orjson

from eunoe.schemas.decisions import Point, SparseVector
from eunoe.schemas.ports import Search
from eunoe.workers.stores.vectors.layout import DISTANCE, StoredCollection, layout_of
from eunoe.workers.stores.vectors.payloads import DENSE, SPARSE, Json, born_of
from eunoe.workers.stores.vectors.qdrant_search import Fetch, Scored
from eunoe.workers.stores.vectors.wire import Bounds, HttpResponse, JsonHttpClient, NoAnswer

FENCE: Final = "fence"
"""Field of a payload: upserts with a smaller fence are refused."""

PORT: Final = 6333
"""Qdrant's port of its REST API."""
PAGE: Final = 1_000
"""Points in one page of a listing."""


@dataclass(frozen=True, slots=True)
class Over:
    """The stored points that an upsert may replace."""

    seq: int
    """They are not of a later session."""
    fence: int = 0
    """They demand no greater fence."""
    mark: bool = False
    """Whether the new points demand this fence."""


class UnexpectedStatus(Exception):
    """The server answered with another status than 200."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__(f"{answer.status} {answer.reason}: {answer.content.decode(errors='replace')}")
        self.status = answer.status
        self.location = answer.headers.get("location")
        """The place that a redirection names."""


def qdrant_address(url: str) -> str:
    """The URL without a login, and with port 6333 where it names none, also with https: as qdrant-client reads it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host if parts.port else f"{host}:{PORT}", parts.path, "", ""))


class QdrantRest:
    """A client of Qdrant. Its calls raise `UnexpectedStatus`, and `NoAnswer` where no complete answer comes."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: int = 30) -> None:
        headers = {} if api_key is None else {"api-key": api_key}
        self._wire = JsonHttpClient(qdrant_address(url), headers, Bounds(connect_s=timeout_s, read_s=timeout_s))

    @property
    def address(self) -> str:
        """The server's URL, with the port."""
        return self._wire.address

    async def write_points(self, collection: str, points: Sequence[Point], over: Over | None) -> None:
        """Write points and wait for it; with ``over`` only over stored points that it allows, and where none is."""
        demands = {FENCE: over.fence} if over is not None and over.mark else {}
        body: dict[str, Any] = {"points": [_row(point, demands) for point in points]}
        if over is not None:
            body["update_filter"] = {
                # so that a point without a number is replaced, too
                "must_not": [
                    {"key": "seq", "range": {"gt": over.seq}},
                    {"key": FENCE, "range": {"gt": over.fence}},
                ],
            }
        await self._send("PUT", f"{_place(collection)}?wait=true", body)

    async def fence_points(self, collection: str, ids: Sequence[str], fence: int) -> None:
        """Put points without vectors, of no conversation, in the place of these, and wait for it.

        Points that demand ``fence`` or more stay.
        """
        body = {
            "points": [{"id": id_, "vector": {}, "payload": {"seq": 0, FENCE: fence}} for id_ in ids],
            "update_filter": {"must_not": [{"key": FENCE, "range": {"gte": fence}}]},
        }
        await self._send("PUT", f"{_place(collection)}?wait=true", body)

    async def search_points(self, collection: str, asked: Sequence[tuple[Search, Fetch]]) -> list[list[Scored]]:
        """The best points of each search, as many as to fetch."""
        body = {"searches": [_query(search, fetch) for search, fetch in asked]}
        found = await self._send("POST", f"{_place(collection)}/query/batch", body)
        return [[_scored(point) for point in one["points"]] for one in found]

    async def scroll(
        self,
        collection: str,
        key: str,
        *,
        ids: Sequence[str] | None = None,
        payload: Sequence[str] | bool,
        vectors: bool = False,
    ) -> AsyncIterator[Json]:
        """The points of a conversation, or those of ``ids``, by id, with these fields of their payloads."""
        body = {"filter": _chosen(key, ids), "limit": PAGE, "with_payload": payload, "with_vector": vectors}
        page: Any = None
        while True:
            found = await self._send("POST", f"{_place(collection)}/scroll", {**body, "offset": page})
            for point in found["points"]:
                yield point
            page = found["next_page_offset"]
            if page is None:
                return

    async def delete_points(self, collection: str, key: str, ids: Sequence[str]) -> None:
        """Remove those of the points that are of this conversation, and wait for it."""
        await self._send("POST", f"{_place(collection)}/delete?wait=true", {"filter": _chosen(key, ids)})

    async def collections(self) -> list[str]:
        """The names of all collections."""
        return [one["name"] for one in (await self._send("GET", "/collections", None))["collections"]]

    async def collection(self, collection: str) -> StoredCollection | None:
        """A collection's metadata and layout; `None` where there is no such collection."""
        try:
            about = await self._send("GET", _named(collection), None)
        except UnexpectedStatus as fault:
            if fault.status != 404:
                raise
            return None
        config = about["config"]
        return StoredCollection(config.get("metadata") or {}, layout_of(config.get("params") or {}))

    async def create_collection(self, collection: str, dimensions: int, metadata: Json) -> None:
        """Make a collection for vectors of this length, in the layout for many small tenants."""
        body = {
            "vectors": {DENSE: {"size": dimensions, "distance": DISTANCE}},
            "sparse_vectors": {SPARSE: {}},
            "hnsw_config": {"m": 0, "payload_m": 16},
            "metadata": metadata,
        }
        await self._send("PUT", _named(collection), body)

    async def index_payload(self, collection: str, field: str, schema: Json) -> None:
        """Index a field of the payloads, and wait for it; a repeated call changes nothing."""
        await self._send("PUT", f"{_named(collection)}/index?wait=true", {"field_name": field, "field_schema": schema})

    async def delete_collection(self, collection: str) -> None:
        """Delete a collection; a missing one is ignored."""
        try:
            await self._send("DELETE", _named(collection), None)
        except UnexpectedStatus as fault:
            if fault.status != 404:
                raise

    async def rewrite(self, collection: str) -> None:
        """Let the embedded server write a collection's files anew; Qdrant proper has no such call."""
        await self._send("POST", f"{_named(collection)}/rewrite", {})

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()

    async def _send(self, method: str, path: str, body: Json | None) -> Any:  # noqa: ANN401 - JSON
        """The ``result`` of an answer."""
        answer = await self._wire.send(method, path, body)
        if answer.status != 200:
            raise UnexpectedStatus(answer)
        try:
            return orjson.loads(answer.content)["result"]
        except (ValueError, KeyError, TypeError):
            raise NoAnswer from ValueError(f"this is no answer of Qdrant: {answer.content[:80]!r}")


def _named(collection: str) -> str:
    return f"/collections/{quote(collection, safe='')}"


def _place(collection: str) -> str:
    return f"{_named(collection)}/points"


def _row(point: Point, more: Json) -> Json:
    vector: dict[str, Any] = {DENSE: np.frombuffer(point.dense, "<f4")}
    if point.sparse.indices:
        vector[SPARSE] = _terms(point.sparse)
    payload = {"key": point.key, "born": point.born, "seq": point.seq, "digest": point.text_digest, **more}
    return {"id": point.id, "vector": vector, "payload": payload}


def _terms(sparse: SparseVector) -> Json:
    return {"indices": sparse.indices, "values": sparse.values}


def _chosen(key: str, ids: Sequence[str] | None) -> Json:
    """The filter for the points of a conversation, or those of ``ids``."""
    must: list[Json] = [_of(key)]
    if ids is not None:
        must.append({"has_id": ids})
    return {"must": must}


def _of(key: str) -> Json:
    return {"key": "key", "match": {"value": key}}


def _query(search: Search, fetch: Fetch) -> Json:
    must: list[Json] = [_of(search.key)]
    if fetch.by_age:
        must.append({"key": "born", "range": {"lt": search.born_before}})
    if search.dense is not None:
        asked: dict[str, Any] = {"query": np.frombuffer(search.dense, "<f4"), "using": DENSE}
    else:
        assert search.sparse is not None
        asked = {"query": _terms(search.sparse), "using": SPARSE}
    named = ["born"] if search.born_before is not None and not fetch.by_age else False
    return {
        **asked, "filter": {"must": must}, "params": {"exact": True}, "limit": fetch.limit, "with_payload": named,
    }  # fmt: skip


def _scored(point: Json) -> Scored:
    payload = point.get("payload")
    return Scored(str(point["id"]), point["score"], None if payload is None else born_of(payload))
