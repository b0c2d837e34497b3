"""A write-through cache of a stage's own state: what its process has read or written is not read from Redis again.

The fence keeps it coherent: a commit passes only where the ledger is still the one that the decision began with. As
long as no other process has committed, the cached documents are those of the store. Once one has, the commit is
refused, the conversation leaves the cache, and the record is handled again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from math import inf
from sys import getsizeof
from time import monotonic
from typing import Final

from eunoe.schemas.decisions import Clear, Commit, Drop, Ledger, Outbox, Put, Scope, Write
from eunoe.schemas.errors import EunoeError
from eunoe.schemas.ports import StateStore
from eunoe.workers.text.caches import CacheBySize

CACHE_TTL_S: Final = 30.0
"""Seconds for which a conversation's state is cached after its ledger was read or committed last."""
CACHE_BYTES: Final = 24_000_000
"""Bytes that a process caches, of all stages together."""
MAX_CONVERSATION_BYTES: Final = 2_000_000
"""Bytes of one conversation at one stage; beyond them the least recently used half is dropped."""
_ROW_BYTES: Final = 120
"""Bytes of a document beside its id and text, about."""


class StaleState(EunoeError):
    """A commit was refused, and its ledger came from the cache: read all again, and decide anew."""


@dataclass(slots=True)
class CachedState:
    """The cached state of one stage in a conversation."""

    ledger: Ledger
    epoch: int
    at: float
    """The time at which the ledger was read or committed last, by the clock."""
    served: bool = False
    """Whether the ledger was served from the cache since then."""
    is_whole: bool = False
    """Whether all documents of all tables are cached."""
    rows: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Table → id → document, the one used last at the end; `None` for one that is not there."""
    whole: set[str] = field(default_factory=set)
    """Tables of which all documents are cached."""
    size: int = 0
    read_since: bool = False
    """Whether documents were read since the ledger was read or committed."""

    def has_all(self, table: str) -> bool:
        """Whether all documents of a table are cached."""
        return self.is_whole or table in self.whole

    def note(self, table: str, documents: Iterable[tuple[str, str | None]]) -> None:
        """Note documents as they are stored now."""
        rows = self.rows.setdefault(table, {})
        for id_, text in documents:
            self.size += _size(id_, text) - (_size(id_, rows.pop(id_)) if id_ in rows else 0)
            rows[id_] = text

    def use(self, table: str, ids: Iterable[str]) -> None:
        """Mark cached documents as used now."""
        rows = self.rows.get(table, {})
        for id_ in ids:
            if id_ in rows:
                rows[id_] = rows.pop(id_)

    def write(self, writes: Sequence[Write]) -> None:
        """Apply the writes of a decision that was committed."""
        for table in {write.table for write in writes if isinstance(write, Clear)}:
            gone = self.rows.pop(table, {})
            self.size -= sum(starmap(_size, gone.items()))
            self.whole.add(table)
        for write in writes:
            match write:
                case Put():
                    self.note(write.table, [(write.id, write.text)])
                case Drop():
                    self.note(write.table, [(write.id, None)])
                case Clear():
                    pass

    def forget_older(self) -> None:
        """Forget the least recently used half of each table's documents."""
        self.whole = {table for table, rows in self.rows.items() if self.has_all(table) and not rows}
        self.is_whole, self.size = False, 0
        for table, rows in list(self.rows.items()):
            self.rows[table] = {}
            self.note(table, islice(rows.items(), (len(rows) + 1) // 2, None))


def _size(id_: str, text: str | None) -> int:
    return getsizeof(id_) + getsizeof(text) + _ROW_BYTES


StateCache = CacheBySize[tuple[str, str], CachedState]
"""Cached states by stage and conversation."""


def state_cache() -> StateCache:
    """The cache that all stages of a process share."""
    return CacheBySize(CACHE_BYTES, "state at hand")


class CachedStateStore:
    """`StateStore` for one stage, which caches its own ledgers and tables.

    State of other stages and of single requests is never cached. No other stage may read through it.
    """

    def __init__(
        self, store: StateStore, stage: str, cache: StateCache, clock: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._stage = stage
        self._cache = cache
        self._clock = clock
        self._epoch = 0

    def forget_all(self) -> None:
        """Forget everything: the stage reads its partitions again, perhaps because the store lost writes."""
        self._epoch += 1

    def forget(self, key: str) -> None:
        """Read the ledger of a conversation from the store next time."""
        if (known := self._known(key)) is not None:
            known.at = -inf

    def _known(self, key: str) -> CachedState | None:
        known = self._cache.get((self._stage, key))
        return known if known is not None and known.epoch == self._epoch else None

    def _current(self, key: str) -> CachedState | None:
        """The cached state of a conversation, unless it has expired."""
        known = self._known(key)
        return known if known is not None and self._clock() - known.at < CACHE_TTL_S else None

    def _own(self, stage: str, key: str) -> CachedState | None:
        """The same for a read of documents; an expired state notes that they are read from the store."""
        if stage != self._stage:
            return None
        if (known := self._current(key)) is None and (old := self._known(key)) is not None:
            old.read_since = True
        return known

    def _keep(self, key: str, known: CachedState) -> None:
        while known.size > MAX_CONVERSATION_BYTES:
            known.forget_older()
        self._cache.put((self._stage, key), known, known.size + _ROW_BYTES)

    # ---- ledgers

    def _is_own(self, scope: Scope) -> bool:
        return scope.stage == self._stage and not scope.request_id

    async def ledger(self, scope: Scope) -> Ledger:
        """The ledger; from the cache where its outbox was sent."""
        if not self._is_own(scope):
            return await self._store.ledger(scope)
        known = self._current(scope.key)
        if known is not None and known.ledger.outbox is None:
            known.served = True
            return known.ledger
        ledger = await self._store.ledger(scope)
        known = self._known(scope.key)
        if known is None or not _is_same(known.ledger, ledger):
            known = CachedState(ledger, self._epoch, self._clock(), is_whole=ledger == Ledger())
        known.ledger, known.at, known.served, known.read_since = ledger, self._clock(), False, False
        self._keep(scope.key, known)
        return ledger

    async def applied(self, scope: Scope) -> int:
        """The number applied last, as the ledger has it."""
        return (await self.ledger(scope)).applied if self._is_own(scope) else await self._store.applied(scope)

    async def cold_applied(self, scope: Scope) -> int | None:
        """The number applied last of a conversation in the cold store; `None` where its ledger is cached."""
        if self._is_own(scope) and self._current(scope.key) is not None:
            return None
        return await self._store.cold_applied(scope)

    async def commit(self, scope: Scope, commit: Commit) -> str | None:
        """Run the transaction; raises `StaleState` where it was refused, and the ledger came from the cache."""
        known = self._known(scope.key) if self._is_own(scope) else None
        if known is None:
            return await self._store.commit(scope, replace(commit, checks_server=True))
        self._cache.drop((self._stage, scope.key))
        if known.read_since:
            commit = replace(commit, checks_server=True)
        token = await self._store.commit(scope, commit)
        if token is None:
            if known.served:
                raise StaleState(f"{scope.stage}: {scope.key} was changed by another process")
            return None
        if (known.ledger.applied, known.ledger.lates) == (commit.expect, commit.lates):
            known.write(commit.writes)
            known.ledger, known.at = _after(known.ledger, commit, token), self._clock()
            known.served, known.read_since = False, False
            self._keep(scope.key, known)
        return token

    async def mark_sent(self, scope: Scope, number: int) -> None:
        """Drop the outbox, only if it is still that of ``number``."""
        await self._store.mark_sent(scope, number)
        known = self._known(scope.key) if self._is_own(scope) else None
        if known is not None and known.ledger.outbox is not None and known.ledger.outbox.number == number:
            known.ledger = replace(known.ledger, outbox=None)

    # ---- documents

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        """The documents of a table by id, in the order asked; own ones from the cache where they are there."""
        known = self._own(stage, key)
        if known is None:
            return await self._store.fetch(stage, key, table, ids)
        rows = known.rows.get(table, {})
        missing = [] if known.has_all(table) else [id_ for id_ in dict.fromkeys(ids) if id_ not in rows]
        known.use(table, ids)
        if not missing:
            return [rows.get(id_) for id_ in ids]
        ledger, known.read_since = known.ledger, True
        found = dict(zip(missing, await self._store.fetch(stage, key, table, missing), strict=True))
        if self._is_still(key, known, ledger):
            known.note(table, found.items())
            self._keep(key, known)
        return [found[id_] if id_ in found else rows.get(id_) for id_ in ids]

    async def scan(self, stage: str, key: str, table: str) -> dict[str, str]:
        """A whole table: id → document; an own one from the cache where it is complete there."""
        known = self._own(stage, key)
        if known is None:
            return await self._store.scan(stage, key, table)
        if known.has_all(table):
            return {id_: text for id_, text in known.rows.get(table, {}).items() if text is not None}
        ledger, known.read_since = known.ledger, True
        found = await self._store.scan(stage, key, table)
        if self._is_still(key, known, ledger):
            known.note(table, found.items())
            known.whole.add(table)
            self._keep(key, known)
        return found

    def _is_still(self, key: str, known: CachedState, ledger: Ledger) -> bool:
        """Whether nothing was committed or forgotten since a read began."""
        return self._known(key) is known and known.ledger is ledger


def _is_same(known: Ledger, shown: Ledger) -> bool:
    """Whether a ledger shows the cached state: a sent outbox does not matter."""
    return replace(known, outbox=None) == replace(shown, outbox=None) and (
        (known.server, known.key, known.token) == (shown.server, shown.key, shown.token)
    )


def _after(ledger: Ledger, commit: Commit, token: str) -> Ledger:
    """The ledger after a commit that passed, which has this token."""
    skipped = ledger.skipped - {commit.late}
    if commit.skip:
        skipped |= {commit.applied if commit.late is None else commit.late}
    return replace(
        ledger,
        applied=commit.applied,
        lates=commit.lates + (commit.late is not None),
        skipped=skipped,
        outbox=None if commit.outbox is None else Outbox(number=commit.outbox.number),
        key=commit.key,
        token=token,
    )
