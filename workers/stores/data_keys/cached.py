"""Data keys in memory, and a cache of keys before any key store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, TypeVar

from cachetools import TTLCache

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import DataKey, Destroyed, Destruction, KeyRecord, KeyState, KeyStore, KeyStoreStatus
from eunoe.workers.stores.data_keys.wrapping import new_data_key

CACHE_S: Final = 60.0
"""Seconds that a process keeps a key: so long it may read after the key was destroyed."""
CACHED: Final = 100_000
"""Keys that a process keeps."""

T = TypeVar("T")


def missing_key(key_id: str, store: str) -> Unavailable:
    """The fault of a key that the store does not have and never destroyed."""
    return Unavailable(
        f"{store} has neither the key {key_id:.40} nor its tombstone: it is not the store that the key was made in, or"
        " an older copy of it; restore the right one",
        store,
    )


@dataclass(slots=True)
class _Entry:
    conversation: str
    created: datetime | None
    key: DataKey | None
    current: bool = False
    tombstone: Destroyed | None = None


class MemoryKeyStore:
    """`KeyStore` in memory."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._entries: dict[str, _Entry] = {}
        self._clock = clock
        self._id = new_data_key().id

    async def current(self, conversation: str) -> DataKey:
        """The current key, made where there is none."""
        for entry in self._entries.values():
            if entry.conversation == conversation and entry.current and entry.key is not None:
                return entry.key
        return await self.replace(conversation)

    async def get(self, key_id: str) -> DataKey | Destroyed:
        """A key or its tombstone."""
        entry = self._entries.get(key_id)
        found = None if entry is None else entry.key or entry.tombstone
        if found is None:
            raise missing_key(key_id, "the key store in memory")
        return found

    async def replace(self, conversation: str) -> DataKey:
        """Make another key current."""
        for entry in self._entries.values():
            if entry.conversation == conversation:
                entry.current = False
        key = new_data_key()
        self._entries[key.id] = _Entry(conversation, self._clock(), key, current=True)
        return key

    async def destroy(self, key_id: str, why: Destruction) -> None:
        """Leave only a tombstone."""
        entry = self._entries.setdefault(key_id, _Entry("", None, None))
        entry.key, entry.current = None, False
        entry.tombstone = entry.tombstone or Destroyed(key_id, why, self._clock())

    async def keys(self, conversation: str) -> list[KeyRecord]:
        """All keys of a conversation, the oldest first."""
        return [_record(id_, entry) for id_, entry in self._entries.items() if entry.conversation == conversation]

    async def status(self) -> KeyStoreStatus:
        """The identity of the store."""
        return KeyStoreStatus(self._id, sum(entry.tombstone is not None for entry in self._entries.values()), 1)


def _record(id_: str, entry: _Entry) -> KeyRecord:
    if entry.tombstone is not None:
        return KeyRecord(id_, KeyState.DESTROYED, entry.created, entry.tombstone.at, entry.tombstone.why)
    return KeyRecord(id_, KeyState.CURRENT if entry.current else KeyState.RETIRED, entry.created)


class CachedKeys:
    """A `KeyStore` whose keys a process keeps for `CACHE_S`; concurrent callers share one look-up.

    Tombstones are kept as long: they never change.
    """

    def __init__(self, store: KeyStore, ttl_s: float = CACHE_S, timer: Callable[[], float] = monotonic) -> None:
        self.store = store
        self._current: TTLCache[str, DataKey] = TTLCache(CACHED, ttl_s, timer)
        self._by_id: TTLCache[str, DataKey | Destroyed] = TTLCache(CACHED, ttl_s, timer)
        self._asked: dict[tuple[str, str], asyncio.Future[Any]] = {}
        self._changes = 0
        """Number of changes of keys in this process: an answer that was on its way during one is not cached."""

    async def current(self, conversation: str) -> DataKey:
        """The current key; for up to `CACHE_S` one that another process has replaced."""
        found = self._current.get(conversation)
        if found is None:
            changes = self._changes
            found = await self._once(("current", conversation), lambda: self.store.current(conversation))
            if changes == self._changes:
                self._current[conversation] = self._by_id[found.id] = found
        return found

    async def get(self, key_id: str) -> DataKey | Destroyed:
        """A key or its tombstone; for up to `CACHE_S` a key that another process has destroyed."""
        found = self._by_id.get(key_id)
        if found is None:
            changes = self._changes
            found = await self._once(("id", key_id), lambda: self.store.get(key_id))
            if changes == self._changes:
                self._by_id[key_id] = found
        return found

    async def replace(self, conversation: str) -> DataKey:
        """Make another key current, here at once."""
        self._current.pop(conversation, None)
        key = self._current[conversation] = await self.store.replace(conversation)
        self._note_change()
        return key

    async def destroy(self, key_id: str, why: Destruction) -> None:
        """Destroy a key, and forget it here at once."""
        await self.store.destroy(key_id, why)
        self._note_change()
        self._by_id.pop(key_id, None)
        for conversation in [name for name, key in self._current.items() if key.id == key_id]:
            self._current.pop(conversation, None)

    async def keys(self, conversation: str) -> list[KeyRecord]:
        """All keys of a conversation, as the store shows them now."""
        return await self.store.keys(conversation)

    async def status(self) -> KeyStoreStatus:
        """The identity of the store."""
        return await self.store.status()

    def forget(self, conversation: str) -> None:
        """Ask the store again for the current key of a conversation."""
        self._note_change()
        self._current.pop(conversation, None)

    def _note_change(self) -> None:
        self._changes += 1
        self._asked.clear()

    async def _once(self, name: tuple[str, str], ask: Callable[[], Awaitable[T]]) -> T:
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._answered(name, done))
        found: T = await asyncio.shield(task)
        return found

    def _answered(self, name: tuple[str, str], done: "asyncio.Future[Any]") -> None:
        if self._asked.get(name) is done:
            del self._asked[name]
        if not done.cancelled():
            done.exception()  # its callers may all be gone
