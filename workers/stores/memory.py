"""In-memory implementations of the stores, with the rules of the servers."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.decisions import (
    REQUEST_TTL_S,
    Clear,
    Collection,
    Commit,
    Drop,
    Ledger,
    Outbox,
    Point,
    Put,
    Scope,
    Timer,
)
from eunoe.schemas.errors import Refused
from eunoe.schemas.identity import split_key
from eunoe.schemas.ports import ActiveConversation, DueTimer, Hit, Search, StoredConversation
from eunoe.workers.stores.hits import best_hits
from eunoe.workers.stores.promotions import last_promoted

Table = dict[str, str]
_ROUNDED = 1e-5
"""More than rounding (`eunoe.workers.stores.hits.DIGITS`) changes in a score."""


@dataclass(slots=True)
class _StoredLedger:
    """A ledger as stored."""

    applied: int = 0
    skipped: set[int] = field(default_factory=set)
    outbox: Outbox | None = None
    lates: int = 0


class MemoryStore:
    """`StateStore`, `ConversationList`, `ParkingLot` and `Transplants`.

    ``request_ttl_s``: the time to live of the ledger of one request, in seconds.
    """

    def __init__(self, *, request_ttl_s: float = REQUEST_TTL_S, clock: Callable[[], float] = monotonic) -> None:
        self._request_ttl_s = request_ttl_s
        self._clock = clock
        self._ledgers: dict[Scope, _StoredLedger] = {}
        self._expiry: OrderedDict[Scope, float] = OrderedDict()
        self._tables: defaultdict[tuple[str, str, str], Table] = defaultdict(dict)
        self._parked: defaultdict[Scope, dict[int, Table]] = defaultdict(dict)
        self.server = "memory"
        """Id of the server's process: one that is started again has another."""

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger of a stage; an empty one before its first commit."""
        stored = self._stored(scope)
        return Ledger(
            applied=stored.applied,
            skipped=frozenset(stored.skipped),
            outbox=stored.outbox,
            lates=stored.lates,
            server=self.server,
        )

    async def commit(self, scope: Scope, commit: Commit) -> bool:
        """Run the transaction; returns whether the fence let it pass."""
        stored = self._stored(scope)
        if (stored.applied, stored.lates) != (commit.expect, commit.lates) or stored.outbox is not None:
            return False
        if commit.late is not None and commit.late not in stored.skipped:
            return False
        if commit.server not in ("", self.server):
            return False
        self._write(scope, commit)
        stored.applied = commit.applied
        if commit.late is not None:
            stored.lates += 1
            stored.skipped.discard(commit.late)
        if commit.outbox is not None:
            stored.outbox = commit.outbox
        if commit.skip:
            stored.skipped.add(commit.applied if commit.late is None else commit.late)
        if commit.unpark is not None:
            self._parked[scope].pop(commit.unpark, None)
        self._save(scope, stored)
        return True

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        stored = self._stored(scope)
        if stored.outbox is not None and stored.outbox.number == number:
            stored.outbox = None

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked."""
        documents = self._tables.get((stage, key, table), {})
        return [documents.get(id_) for id_ in ids]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document."""
        return dict(self._tables.get((stage, key, table), {}))

    async def conversations(self) -> list[str]:
        """The keys of all conversations, sorted."""
        known = {scope.key for scope in (*self._ledgers, *self._parked)}
        return sorted(known | {key for (_, key, _), rows in self._tables.items() if rows})

    async def park(self, scope: Scope, number: int, slot: str, text: str) -> bool:
        """Store an event once; returns whether its session is still to be applied."""
        if self._stored(scope).applied >= number:
            return False
        self._parked[scope].setdefault(number, {}).setdefault(slot, text)
        return True

    async def parked(self, scope: Scope, number: int) -> dict[str, str]:
        """The parked events of a session: slot → event."""
        return dict(self._parked.get(scope, {}).get(number, {}))

    async def progress(self, scope: Scope) -> tuple[int, int]:
        """The number applied last, and the count of late sessions."""
        stored = self._stored(scope)
        return stored.applied, stored.lates

    async def parked_numbers(self, scope: Scope) -> list[int]:
        """The sessions with parked events, ascending."""
        return sorted(self._parked.get(scope, {}))

    async def export(self, key: str, tables: Mapping[str, Sequence[str]]) -> StoredConversation:
        """The stored state of a conversation; raises ``ValueError`` where an outbox is unsent."""
        ledgers = {stage: await self.ledger(Scope(stage, key)) for stage in tables}
        if unsent := [stage for stage, ledger in ledgers.items() if ledger.outbox is not None]:
            raise ValueError(f"{key}: unsent decisions of {', '.join(unsent)}")
        found = {(stage, table): await self.scan(stage, key, table) for stage in tables for table in tables[stage]}
        parked = {stage: dict(self._parked.get(Scope(stage, key), {})) for stage in tables}
        return StoredConversation(ledgers, found, parked)

    async def swap(
        self,
        key: str,
        tables: Mapping[str, Sequence[str]],
        standing: StoredConversation,
        expect: Ledger,
        others: Mapping[str, Ledger] = {},
    ) -> bool:
        """Replace the stored state of a conversation by ``standing``; returns whether it was still as expected."""
        first, *_ = tables
        now = await self.ledger(Scope(first, key))
        if (now.applied, now.outbox) != (expect.applied, expect.outbox):
            return False
        for stage, other in others.items():
            now = await self.ledger(Scope(stage, key))
            if (now.applied, now.outbox, now.lates) != (other.applied, other.outbox, other.lates):
                return False
        for stage, names in tables.items():
            ledger = standing.ledgers.get(stage, Ledger())
            self._ledgers[Scope(stage, key)] = _StoredLedger(ledger.applied, set(ledger.skipped), lates=ledger.lates)
            self._parked[Scope(stage, key)] = {
                number: dict(slots) for number, slots in standing.parked.get(stage, {}).items()
            }
            for table in names:
                self._tables[stage, key, table] = dict(standing.tables.get((stage, table), {}))
        return True

    def _stored(self, scope: Scope) -> _StoredLedger:
        now = self._clock()
        while self._expiry and next(iter(self._expiry.values())) <= now:
            expired, _ = self._expiry.popitem(last=False)
            del self._ledgers[expired]
        return self._ledgers.get(scope, _StoredLedger())

    def _save(self, scope: Scope, stored: _StoredLedger) -> None:
        self._ledgers[scope] = stored
        if scope.request_id:
            self._expiry[scope] = self._clock() + self._request_ttl_s
            self._expiry.move_to_end(scope)

    def _write(self, scope: Scope, commit: Commit) -> None:
        for write in sorted(commit.writes, key=lambda write: not isinstance(write, Clear)):
            table = self._tables[scope.stage, scope.key, write.table]
            match write:
                case Clear():
                    table.clear()
                case Drop():
                    table.pop(write.id, None)
                case Put():
                    table[write.id] = write.text


class MemoryLogPositions:
    """In-memory `LogPositions` and `ActivityList`."""

    def __init__(self) -> None:
        self._timers: defaultdict[int, dict[str, Timer]] = defaultdict(dict)
        self._active: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._promotions: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self._used: dict[tuple[int, str], int] = {}
        self.announced: dict[str, str] = {}
        """Nonce → generation; with Redis `eunoe.workers.stores.generations.RedisGenerations` writes it."""

    async def schedule(self, partition: int, key: str, timer: Timer) -> None:
        """Set, move or (with no utterance) cancel a conversation's timer, and list the conversation as active.

        A timer with a smaller number than the last one is ignored.
        """
        tenant, conversation_id = split_key(key)
        known = self._active[tenant]
        active = timer.active or timer.since
        known[conversation_id] = max(active, known.get(conversation_id, active))
        last = self._timers[partition].get(key)
        if last is None or last.number <= timer.number:
            self._timers[partition][key] = timer

    async def due(self, partition: int, since: datetime, limit: int) -> list[DueTimer]:
        """Timers of sessions that have been idle since ``since`` or longer, oldest first, equal ones by key."""
        quiet = (
            DueTimer(key, timer)
            for key, timer in self._timers[partition].items()
            if timer.after_utterance_id is not None and timer.since <= since
        )
        return sorted(quiet, key=lambda due: (due.timer.since, due.key))[: max(0, limit)]

    async def active(
        self, tenant: str, limit: int, after: ActiveConversation | None = None
    ) -> list[ActiveConversation]:
        """The conversations of a tenant, the last active first, equal ones by id descending; those behind ``after``."""
        known = sorted(((at, id_.encode()) for id_, at in self._active[tenant].items()), reverse=True)
        last = None if after is None else (after.active, after.conversation_id.encode())
        behind = [ActiveConversation(id_.decode(), at) for at, id_ in known if last is None or (at, id_) < last]
        return behind[:limit]

    async def was_announced(self, partition: int, position: int, generation: str, nonce: str | None) -> bool:
        """Whether the promotion at ``position`` was announced with this nonce, which no other place has used."""
        if nonce is None or self.announced.get(nonce) != generation:
            return False
        return self._used.setdefault((partition, nonce), position) == position

    async def promote(self, partition: int, position: int, generation: str) -> None:
        """Record that ``generation`` answers asks after ``position``."""
        self._promotions[partition][position] = generation

    async def answering(self, partition: int, position: int | None = None) -> str | None:
        """The generation that answers at a position; `None` means the end of the log."""
        return last_promoted(self._promotions[partition], position)


class MemoryIndex:
    """In-memory `VectorIndex`: compares a query with every point of the conversation."""

    def __init__(self) -> None:
        self._made_by: tuple[str, int] | None = None
        self._points: defaultdict[Collection, dict[str, Point]] = defaultdict(dict)
        self._fences: dict[tuple[Collection, str], int] = {}

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Record the embedder; raises `Refused` where it differs from the first one."""
        if self._made_by is None:
            self._made_by = (embedder, dimensions)
        if self._made_by != (embedder, dimensions):
            raise Refused(f"the index was made with {self._made_by}, not with {(embedder, dimensions)}: rebuild it")

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """Write points; one with a smaller ``seq`` or ``fence`` than the stored one is ignored."""
        for point in points:
            self._check_length(point)
            there, place = self._points[point.collection].get(point.id), (point.collection, point.id)
            most = max(point.seq, (over or {}).get(point.id, 0))
            if (there is None or there.seq <= most) and self._fences.get(place, 0) <= fence:
                self._points[point.collection][point.id] = point
                self._fences[place] = fence if mark else 0

    async def fence_off(self, collection: Collection, ids: Sequence[str], fence: int) -> None:
        """Remove points, and refuse them from now on with a smaller ``fence``."""
        for id_ in ids:
            if self._fences.get((collection, id_), 0) < fence:
                self._points[collection].pop(id_, None)
                self._fences[collection, id_] = fence

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search, exact, best first."""
        found: dict[tuple[Collection, str, int | None], _Searched] = {}
        for search in searches:
            place = (search.collection, search.key, search.born_before)
            if place not in found:
                found[place] = _Searched(self._searched(*place))
        return [
            best_hits(found[search.collection, search.key, search.born_before].candidates(search), search.limit)
            for search in searches
        ]

    async def seqs(self, collection: Collection, key: str) -> Mapping[str, int]:
        """Every point of a conversation: id → seq."""
        return {point.id: point.seq for point in self._points[collection].values() if point.key == key}

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """Every point of a conversation: id → digest of its text."""
        return {point.id: point.text_digest for point in self._points[collection].values() if point.key == key}

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """Every point of a conversation, by id."""
        return sorted((p for p in self._points[collection].values() if p.key == key), key=lambda point: point.id)

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation; missing ones and those of another conversation are ignored."""
        for id_ in ids:
            if (found := self._points[collection].get(id_)) is not None and found.key == key:
                del self._points[collection][id_]

    def _check_length(self, point: Point) -> None:
        if self._made_by is not None and len(point.dense) != 4 * self._made_by[1]:
            raise ValueError(f"point {point.id}: {len(point.dense) // 4} dimensions, expected {self._made_by[1]}")

    def _searched(self, collection: Collection, key: str, born_before: int | None) -> list[Point]:
        return [
            point
            for point in self._points[collection].values()
            if point.key == key and (born_before is None or point.born < born_before)
        ]


@dataclass(slots=True)
class _Searched:
    """The points that searches of one call have in common."""

    points: Sequence[Point]
    rows: NDArray[np.float32] | None = None
    """Their vectors, once a search needed them."""

    def candidates(self, search: Search) -> list[tuple[str, float]]:
        """Points with their scores, of which the best hits are the best."""
        if search.dense is not None:
            return self._nearest(search.dense, search.limit) if self.points else []
        query = {} if search.sparse is None else dict(zip(search.sparse.indices, search.sparse.values, strict=True))
        return _sparse_scores(self.points, query)

    def _nearest(self, query: bytes, limit: int) -> list[tuple[str, float]]:
        if self.rows is None:
            flat = np.frombuffer(b"".join([point.dense for point in self.points]), "<f4")
            self.rows = flat.reshape(len(self.points), -1)
        scores = self.rows @ np.frombuffer(query, "<f4")
        places: Iterable[int] = range(len(scores))
        if 0 < limit < len(scores):  # those that may be equal to the last one once they are rounded are among them
            least = np.partition(scores, -limit)[-limit]
            places = np.flatnonzero(scores >= least - _ROUNDED).tolist()
        return [(self.points[place].id, float(scores[place])) for place in places]


def _sparse_scores(points: Sequence[Point], query: Mapping[int, float]) -> list[tuple[str, float]]:
    """The scores of the points that share a term with the query, as in Qdrant."""
    found = []
    for point in points:
        if query.keys().isdisjoint(point.sparse.indices):
            continue
        weights = zip(point.sparse.indices, point.sparse.values, strict=True)
        products = [query[index] * value for index, value in weights if index in query]
        if products:
            found.append((point.id, float(sum(products))))
    return found
