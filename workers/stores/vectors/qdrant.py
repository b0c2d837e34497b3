"""Vector index on Qdrant, or on any server with its REST API.

There is one collection per kind of points. The conversation is a tenant-indexed payload field, Qdrant's way to hold
many small tenants in one collection. Every search is exact over the points of one conversation. The server must be
version 1.16 or newer, which stores a collection's metadata and supports conditional upserts.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import Misconfigured, Refused, Unavailable
from eunoe.schemas.ports import Hit, Search
from eunoe.schemas.redact import redirect_target
from eunoe.streams.tracing import step
from eunoe.workers.stores.redis.connection import tls_refusal
from eunoe.workers.stores.redis.keys import Keys
from eunoe.workers.stores.vectors.layout import check_embedder, check_layout
from eunoe.workers.stores.vectors.payloads import Json, digest_of, point_of, seq_of
from eunoe.workers.stores.vectors.qdrant_rest import FENCE, Over, QdrantRest, UnexpectedStatus
from eunoe.workers.stores.vectors.qdrant_search import Fetch, Scored, best_of, first_fetch, next_fetch
from eunoe.workers.stores.vectors.wire import NoAnswer

BATCH = 256
"""Points in one write request."""

# a key revoked under way, a missing collection, a full or failing server: not the fault of a record
_AWAY_STATUS = frozenset({401, 403, 404, 408, 429})
_GRPC_PORT = 6334
_GRPC_HINT = " (is it the port of Qdrant's gRPC, 6334? EUNOE_QDRANT_URL takes that of its REST API, 6333)"
_NO_HTTP = "Bad status line"
"""The words of aiohttp for a server that answers in another protocol, such as HTTP/2."""
_IDENTITY = "identity"
_RANGED: Json = {"type": "integer", "lookup": False, "range": True, "enable_hnsw": False}
_PAYLOAD_INDEXES: Mapping[str, Json] = {
    "key": {"type": "keyword", "is_tenant": True},
    "born": _RANGED,
    "seq": _RANGED,
    FENCE: _RANGED,
}
"""Every field that a filter names: a Qdrant in strict mode, as in its cloud, refuses filters by others."""


class QdrantIndex:
    """`VectorIndex` on Qdrant."""

    def __init__(self, client: QdrantRest, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        address = urlsplit(client.address)
        self._host = address.netloc.rpartition("@")[2]
        self._hint = _GRPC_HINT if address.port == _GRPC_PORT else ""

    @property
    def server(self) -> str:
        """The server's name in faults and metrics."""
        return f"Qdrant at {self._host}"

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Create missing collections; raises `Refused` where one was made with another embedder."""
        with self._translating_faults():
            for collection in Collection:
                await self._prepare(self._keys.collection(collection), embedder, dimensions)

    async def identities(self) -> Mapping[str, str]:
        """The collections of this generation that exist, with their identities; an old one has the identity ""."""
        found: dict[str, str] = {}
        with self._translating_faults():
            for collection in Collection:
                name = self._keys.collection(collection)
                metadata = await self._metadata(name)
                if metadata is not None:
                    found[name] = str(metadata.get(_IDENTITY, ""))
        return found

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """Write points and wait; one with a smaller ``seq`` or ``fence`` than the stored one demands is ignored."""
        groups: defaultdict[tuple[int, Collection], dict[str, Point]] = defaultdict(dict)
        for point in points:
            groups[max(point.seq, (over or {}).get(point.id, 0)), point.collection][point.id] = point
        for (seq, collection), group in sorted(groups.items()):
            await self._write(collection, list(group.values()), Over(seq, fence, mark))

    async def fence_off(self, collection: Collection, ids: Sequence[str], fence: int) -> None:
        """Put empty points in the place of these, which refuse upserts with a smaller ``fence``; wait."""
        with self._translating_faults():
            for at in range(0, len(ids), BATCH):
                await self._client.fence_points(self._keys.collection(collection), ids[at : at + BATCH], fence)

    async def load(self, collection: Collection, points: Sequence[Point]) -> None:
        """Write points of one collection unconditionally and wait; only for a generation without workers."""
        await self._write(collection, points, None)

    async def _write(self, collection: Collection, rows: Sequence[Point], over: Over | None) -> None:
        """Write points of one collection, over those that ``over`` allows; `None` means over all."""
        with self._translating_faults():
            for at in range(0, len(rows), BATCH):
                part = rows[at : at + BATCH]
                with step("upsert qdrant", {"db.system.name": "qdrant", "db.operation.batch.size": len(part)}):
                    await self._client.write_points(self._keys.collection(collection), part, over)

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search, exact, best first.

        Makes one request per collection, and more where points not fetched may be among the best.
        """
        found: list[list[Hit]] = [[] for _ in searches]
        fetches = {place: fetch for place, search in enumerate(searches) if (fetch := first_fetch(search))}
        while fetches:
            with step("search qdrant", {"db.system.name": "qdrant", "db.operation.batch.size": len(fetches)}):
                answers = await self._ask(searches, fetches)
            following: dict[int, Fetch] = {}
            for place, answer in answers.items():
                search = searches[place]
                found[place] = best_of(search, answer)
                if (fetch := next_fetch(search, fetches[place], answer, found[place])) is not None:
                    following[place] = fetch
            fetches = following
        return found

    async def seqs(self, collection: Collection, key: str, ids: Sequence[str] | None = None) -> Mapping[str, int]:
        """Every point of a conversation, or those of ``ids``: id → seq."""
        return {id_: seq_of(payload) async for id_, payload in self._payloads(collection, key, ids, "seq")}

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """Every point of a conversation: id → digest of its text."""
        return {id_: digest_of(payload) async for id_, payload in self._payloads(collection, key, None, "digest")}

    async def _payloads(
        self, collection: Collection, key: str, ids: Sequence[str] | None, *fields: str
    ) -> AsyncIterator[tuple[str, Json]]:
        """The ids and fields of the points of a conversation, or of ``ids``."""
        with self._translating_faults():
            name = self._keys.collection(collection)
            async for point in self._client.scroll(name, key, ids=ids, payload=fields):
                yield str(point["id"]), point["payload"] or {}

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """Every point of a conversation that can be read, by id, with its vectors as stored."""
        name = self._keys.collection(collection)
        with self._translating_faults():
            stored = self._client.scroll(name, key, payload=True, vectors=True)
            found = [point_of(collection, one) async for one in stored]
        return sorted(filter(None, found), key=lambda point: point.id)

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation and wait; missing ones and those of another conversation are ignored."""
        with self._translating_faults():
            for at in range(0, len(ids), BATCH):
                await self._client.delete_points(self._keys.collection(collection), key, ids[at : at + BATCH])

    async def rewrite(self, collection: Collection) -> None:
        """Let the embedded server write a collection's files anew, without what was deleted. Raises `Unavailable`."""
        with self._translating_faults():
            await self._client.rewrite(self._keys.collection(collection))

    async def drop_generation(self) -> None:
        """Delete the collections of this generation that exist."""
        with self._translating_faults():
            for collection in Collection:
                await self._client.delete_collection(self._keys.collection(collection))

    async def check(self, embedder: str, dimensions: int) -> None:
        """Check the collections; raises `Refused` where one is missing or was made with another embedder."""
        with self._translating_faults():
            for collection in Collection:
                name = self._keys.collection(collection)
                metadata = await self._metadata(name)
                if metadata is None:
                    raise Refused(f"there is no Qdrant collection {name}")
                check_embedder(name, metadata, embedder, dimensions)

    async def _metadata(self, name: str) -> Mapping[str, Any] | None:
        """The metadata of a collection, `None` where there is none.

        Raises `Misconfigured` where its vectors are not as its metadata says: someone made it by hand.
        """
        found = await self._client.collection(name)
        if found is None:
            return None
        check_layout(name, found, self.server)
        return found.metadata

    async def _prepare(self, name: str, embedder: str, dimensions: int) -> None:
        if await self._metadata(name) is None:
            await self._create(name, embedder, dimensions)
        check_embedder(name, await self._metadata(name) or {}, embedder, dimensions)
        await self._index(name)

    async def _create(self, name: str, embedder: str, dimensions: int) -> None:
        metadata = {"embedder": embedder, "dimensions": dimensions, _IDENTITY: token_urlsafe(12)}
        try:
            await self._client.create_collection(name, dimensions, metadata)
        except UnexpectedStatus:
            if await self._metadata(name) is None:  # otherwise another process created it
                raise

    async def _index(self, name: str) -> None:
        for field, schema in _PAYLOAD_INDEXES.items():
            await self._client.index_payload(name, field, schema)

    async def _ask(self, searches: Sequence[Search], fetches: Mapping[int, Fetch]) -> dict[int, list[Scored]]:
        """``fetches``: place of a search → what to fetch. Returns the answers by place."""
        places: defaultdict[Collection, list[int]] = defaultdict(list)
        for place in fetches:
            places[searches[place].collection].append(place)
        requests = (
            self._client.search_points(
                self._keys.collection(collection), [(searches[place], fetches[place]) for place in group]
            )
            for collection, group in places.items()
        )
        with self._translating_faults():
            responses = await asyncio.gather(*requests)
        return {
            place: answer
            for group, answers in zip(places.values(), responses, strict=True)
            for place, answer in zip(group, answers, strict=True)
        }

    @contextmanager
    def _translating_faults(self) -> Iterator[None]:
        """Raise `Unavailable` for faults of an absent server; let all others pass."""
        try:
            yield
        except (UnexpectedStatus, NoAnswer) as fault:
            server = self.server
            if (advice := _refusal(fault, self._client.address)) is not None:
                raise Misconfigured(f"{server} {advice}", server) from fault
            if not _is_away(fault):
                raise
            said = _describe(fault)
            hint = _GRPC_HINT if _NO_HTTP in said else self._hint
            raise Unavailable(f"{server}: {said}{hint}", server) from fault


def _refusal(fault: UnexpectedStatus | NoAnswer, address: str) -> str | None:
    """The refusal of a server, and the setting to change; `None` for any other fault."""
    if isinstance(fault, UnexpectedStatus):
        if 300 <= fault.status < 400:
            target = redirect_target(fault.location, address)
            said = f"said {fault.status}" + (f" and redirects to {target}" if target else "")
            return f"{said}: redirections are not followed; set EUNOE_QDRANT_URL to the address that answers by itself"
        refused = fault.status in (401, 403)
        return f"refuses the API key ({fault.status}): set EUNOE_QDRANT_API_KEY" if refused else None
    advice = "set EUNOE_QDRANT_URL to https:// or http://, as the port has it, and SSL_CERT_FILE to your own authority"
    return tls_refusal(fault.__cause__, advice)


def _is_away(fault: UnexpectedStatus | NoAnswer) -> bool:
    """Whether a fault means that the server cannot serve now."""
    return isinstance(fault, NoAnswer) or fault.status >= 500 or fault.status in _AWAY_STATUS


def _describe(fault: UnexpectedStatus | NoAnswer) -> str:
    if isinstance(fault, NoAnswer):
        return f"{type(fault.__cause__).__name__}: {fault.__cause__!s:.200}"
    return f"{fault!s:.300}"
