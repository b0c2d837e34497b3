"""Guards searches against a vector index that has lost its points: they wait until `eunoe reindex` restores it."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.errors import StateLost, Unavailable
from eunoe.schemas.model_ports import Embedder
from eunoe.schemas.ports import Hit, Search, VectorIndex
from eunoe.workers.derive.index_audit import SampledStore, expected_entries, has_missing_entries, missing_entries
from eunoe.workers.stage import StageSpec
from eunoe.workers.stores.records.index_record import IndexRecord, RedisIndexRecord, lost_reason

log = logging.getLogger(__name__)

T = TypeVar("T")

SERVER = "the vector index"
"""The name that waits for it have in logs and metrics."""
SAMPLE = 4
"""Conversations looked at in each round of `IndexGuard.sample`."""
SAMPLED_DOCUMENTS = 32
"""Documents of each of their tables whose points are looked for; of suspects, all are."""
FIRST_SAMPLE = 256
"""Conversations looked at before an index without a record is taken for a new one."""
ROUNDS = 2
"""Rounds in a row in which a conversation must lack points: a repair writes its points after its documents."""
MAX_SUSPECTS = 64
_BEFORE = "before"


class IdentifiedIndex(VectorIndex, Protocol):
    """A vector index whose collections have identities."""

    async def identities(self) -> Mapping[str, str]:
        """The collections that exist, with their identities. Raises `Unavailable`."""
        ...


@dataclass(slots=True)
class IndexGuard:
    """Compares the index with its record and with samples of the state store."""

    index: IdentifiedIndex
    register: RedisIndexRecord
    store: SampledStore
    embedder: Embedder
    specs: Mapping[str, StageSpec]
    """The stages, by name."""
    name: Callable[[Collection], str]
    """The name of a collection in Qdrant."""
    lost: str | None = None
    """The reason why no search may be answered; `None` means that the index is the one that was filled."""
    _record: IndexRecord = field(default_factory=IndexRecord)
    _suspects: Counter[str] = field(default_factory=Counter)
    _damaged: set[str] = field(default_factory=set)
    """Conversations that cannot be read, as was logged."""

    async def open(self) -> None:
        """Check the index at the start of a process, and create missing collections unless the index was lost.

        Raises `Refused` where a collection was made with another embedder, `Unavailable`.
        """
        await self.check()
        if self.lost is None:
            await self.index.prepare(self.embedder.name, self.embedder.dimensions)

    async def check(self) -> None:
        """Compare the collections with their record; raises `Unavailable` when a server is."""
        record, found = await self.register.read(), await self.index.identities()
        if not record.identities:
            record = await self._first(found)
            found = await self.index.identities()
        self._record, self.lost = record, lost_reason(record, found)

    async def _first(self, found: Mapping[str, str]) -> IndexRecord:
        """Record the collections of a generation for the first time; missing ones that had points count as lost."""
        names = [self.name(collection) for collection in Collection]
        if set(names) - found.keys() and await self._has_documents():
            await self.register.adopt({name: found.get(name, _BEFORE) for name in names})
        else:
            await self.index.prepare(self.embedder.name, self.embedder.dimensions)
            await self.register.adopt(await self.index.identities())
        return await self.register.read()

    async def _has_documents(self) -> bool:
        for key in await self.store.sample(FIRST_SAMPLE):
            for spec in self.specs.values():
                try:
                    if any((await expected_entries(self.store, key, spec)).values()):
                        return True
                except StateLost:  # something stands there
                    return True
        return False

    async def sample(self) -> str | None:
        """Look for the points of some documents; the reason why the index is incomplete, or `None`.

        Raises `Unavailable`.
        """
        if self.lost is not None:
            return None
        for key in list(self._suspects):
            if await self._lacks(key, missing_entries(self.store, self.index, key, self.specs)):
                self._suspects[key] += 1
            else:
                del self._suspects[key]
        for key in await self.store.sample(SAMPLE) - self._suspects.keys():
            if len(self._suspects) >= MAX_SUSPECTS:
                break
            looked = has_missing_entries(self.store, self.index, key, self.specs, SAMPLED_DOCUMENTS)
            if await self._lacks(key, looked):
                self._suspects[key] = 1
        confirmed = [key for key, rounds in self._suspects.items() if rounds >= ROUNDS]
        if not confirmed:
            return None
        more = "at least " if len(confirmed) == MAX_SUSPECTS else ""
        many = "1 conversation" if len(confirmed) == 1 else f"{len(confirmed)} conversations"
        return f"Qdrant lacks points of {more}{many}: run `eunoe reindex`"

    async def _lacks(self, key: str, looked: Awaitable[object]) -> bool:
        """Whether a look found that points are missing; nothing is known of a conversation whose state is damaged."""
        try:
            found = bool(await looked)
        except StateLost as fault:
            if key not in self._damaged and len(self._damaged) < MAX_SUSPECTS:
                self._damaged.add(key)
                log.warning("%s", fault)
            return False
        self._damaged.discard(key)
        return found

    async def confirm(self) -> None:
        """Confirm that searches before this call saw the whole index; raises `Unavailable` where they may not have."""
        if self.lost is None and await self.register.read() == self._record:
            return
        await self.check()
        raise Unavailable(f"{SERVER}: {self.lost or 'it was restored meanwhile'}", SERVER)

    async def confirm_nothing(self, search: Search) -> None:
        """Confirm that a search found nothing because there is nothing; raises `Unavailable` where points are missing.

        Only the conversation of the search waits then.
        """
        limit = search.born_before
        for spec in self.specs.values():
            if not any(indexed.collection is search.collection for indexed in spec.tables.indexed):
                continue
            missing = await missing_entries(self.store, self.index, search.key, {spec.name: spec})
            if any(limit is None or entry.oldest < limit for entry in missing):
                self._suspects[search.key] = ROUNDS
                lacks = f"Qdrant lacks points of {search.key}: run `eunoe reindex`"
                raise Unavailable(f"{SERVER}: {lacks}", SERVER)


@dataclass(frozen=True, slots=True)
class GuardedIndex:
    """`VectorIndex` whose searches wait while the index is incomplete: nothing is decided from missing points."""

    index: VectorIndex
    guard: IndexGuard

    async def prepare(self, embedder: str, dimensions: int) -> None:
        """Create missing collections; raises `Refused` where one was made with another embedder."""
        await self.index.prepare(embedder, dimensions)

    async def upsert(
        self, points: Sequence[Point], fence: int = 0, *, mark: bool = False, over: Mapping[str, int] | None = None
    ) -> None:
        """Write points and wait until searches find them; raises `Unavailable` where the index is another one."""
        await self._of_own(self.index.upsert(points, fence, mark=mark, over=over))

    async def _of_own(self, request: Awaitable[T]) -> T:
        """The answer to a request; raises `Unavailable` for a fault of another deployment's collection.

        Its vectors may be of another length, which Qdrant refuses: neither the event nor this process is at fault.
        """
        try:
            return await request
        except Unavailable:
            raise
        except Exception:
            await self.guard.check()
            if self.guard.lost is not None:
                raise Unavailable(f"{SERVER}: {self.guard.lost}", SERVER) from None
            raise

    async def fence_off(self, collection: Collection, ids: Sequence[str], fence: int) -> None:
        """Remove points, and refuse late upserts of them."""
        await self.index.fence_off(collection, ids, fence)

    async def search(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """The best hits of each search; raises `Unavailable` while points are missing."""
        if self.guard.lost is not None:
            await self.guard.confirm()
        found = await self._of_own(self.index.search(searches))
        await self.guard.confirm()
        for search, hits in zip(searches, found, strict=True):
            if not hits and search.dense is not None and search.limit > 0:
                await self.guard.confirm_nothing(search)
        return found

    async def seqs(self, collection: Collection, key: str, ids: Sequence[str] | None = None) -> Mapping[str, int]:
        """All points of a conversation, or those of ``ids``: id → seq."""
        return await self.index.seqs(collection, key, ids)

    async def digests(self, collection: Collection, key: str) -> Mapping[str, str]:
        """All points of a conversation: id → digest of its text."""
        return await self.index.digests(collection, key)

    async def points(self, collection: Collection, key: str) -> list[Point]:
        """All points of a conversation, by id."""
        return await self.index.points(collection, key)

    async def remove(self, collection: Collection, key: str, ids: Sequence[str]) -> None:
        """Remove points of a conversation and wait."""
        await self.index.remove(collection, key, ids)
