"""A Qdrant client with its own implementation of the frequent calls: points, searches, metadata of collections.

qdrant-client validates a pydantic model of every point and parses an answer by trying all possible types. To a local
server it opens a connection per request. That takes several milliseconds of processor time a request. Rare calls
still use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import orjson
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from eunoe.schemas.decisions import Point, SparseVector
from eunoe.schemas.ports import Search
from eunoe.workers.stores.wire import Bounds, JsonHttpClient, NoAnswer

DENSE: Final = "dense"
SPARSE: Final = "bm25"

FENCE: Final = "fence"
"""Field of a payload: upserts with a smaller fence are refused."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Over:
    """The stored points that an upsert may replace."""

    seq: int
    """They are not of a later session."""
    fence: int = 0
    """They demand no greater fence."""
    mark: bool = False
    """Whether the new points demand this fence."""


class QdrantRest(AsyncQdrantClient):
    """The client of qdrant-client over REST, with faster calls for what is asked often."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: int = 30) -> None:
        headers = {} if api_key is None else {"api-key": api_key}
        # as `api_key` it would be a warning of Python for each http:// URL, also on loopback
        super().__init__(url=url, metadata=headers, timeout=timeout_s, check_compatibility=False)
        address = str(self.http.client.host)
        self._wire = JsonHttpClient(address, headers, Bounds(connect_s=timeout_s, read_s=timeout_s))

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
                "must": [{"key": "seq", "range": {"lte": over.seq}}],
                "must_not": [{"key": FENCE, "range": {"gt": over.fence}}],
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

    async def search_points(
        self, collection: str, searches: Sequence[Search], limits: Sequence[int]
    ) -> list[list[tuple[str, float]]]:
        """(id, score) of the ``limits`` best points of each search."""
        asked = [_query(search, limit) for search, limit in zip(searches, limits, strict=True)]
        found = await self._send("POST", f"{_place(collection)}/query/batch", {"searches": asked})
        return [[(str(point["id"]), point["score"]) for point in one["points"]] for one in found]

    async def collection_metadata(self, collection: str) -> Mapping[str, Any] | None:
        """The metadata of a collection; `None` where there is no such collection."""
        try:
            about = await self._send("GET", f"/collections/{quote(collection, safe='')}", None)
        except UnexpectedResponse as fault:
            if fault.status_code != 404:
                raise
            return None
        return about["config"].get("metadata") or {}

    async def rewrite(self, collection: str) -> None:
        """Let the embedded server write a collection's files anew; Qdrant proper has no such call."""
        await self._send("POST", f"/collections/{quote(collection, safe='')}/rewrite", {})

    async def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - as its parent
        """Close all connections."""
        await self._wire.close()
        await super().close(grpc_grace, **kwargs)

    async def _send(self, method: str, path: str, body: Json | None) -> Any:  # noqa: ANN401 - JSON
        """The ``result`` of an answer; raises the exceptions of qdrant-client."""
        try:
            answer = await self._wire.send(method, path, body)
        except NoAnswer as fault:
            cause = fault.__cause__
            raise ResponseHandlingException(cause if isinstance(cause, Exception) else fault) from cause
        if answer.status != 200:
            headers: Any = answer.headers
            raise UnexpectedResponse(answer.status, answer.reason, answer.content, headers)
        return orjson.loads(answer.content)["result"]


def _place(collection: str) -> str:
    return f"/collections/{quote(collection, safe='')}/points"


def _row(point: Point, more: Json) -> Json:
    vector: dict[str, Any] = {DENSE: np.frombuffer(point.dense, "<f4")}
    if point.sparse.indices:
        vector[SPARSE] = _terms(point.sparse)
    payload = {"key": point.key, "born": point.born, "seq": point.seq, "digest": point.text_digest, **more}
    return {"id": point.id, "vector": vector, "payload": payload}


def _terms(sparse: SparseVector) -> Json:
    return {"indices": sparse.indices, "values": sparse.values}


def _query(search: Search, limit: int) -> Json:
    must: list[Json] = [{"key": "key", "match": {"value": search.key}}]
    if search.born_before is not None:
        must.append({"key": "born", "range": {"lt": search.born_before}})
    if search.dense is not None:
        asked: dict[str, Any] = {"query": np.frombuffer(search.dense, "<f4"), "using": DENSE}
    else:
        assert search.sparse is not None
        asked = {"query": _terms(search.sparse), "using": SPARSE}
    return {
        **asked, "filter": {"must": must}, "params": {"exact": True}, "limit": limit, "with_payload": False,
    }  # fmt: skip
