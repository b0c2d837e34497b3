"""A cache of keys before any key store."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, TypeVar

from cachetools import TTLCache

from eunoe.schemas.errors import Unavailable
from eunoe.schemas.keys import DataKey, Destroyed, Destruction, KeyRecord, KeyStore, KeyStoreStatus

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


class CachedKeys:
    """A `KeyStore` whose keys a process keeps for `CACHE_S`; concurrent callers share one look-up.

    Tombstones are kept as long: they never change.
    """

    def __init__(self, store: KeyStore, timer: Callable[[], float] = monotonic) -> None:
        self.store = store
        self._current: TTLCache[str, DataKey] = TTLCache(CACHED, CACHE_S, timer)
        self._by_id: TTLCache[str, DataKey | Destroyed] = TTLCache(CACHED, CACHE_S, timer)
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
