"""Data keys in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from eunoe.schemas.keys import DataKey, Destroyed, Destruction, KeyRecord, KeyState, KeyStoreStatus
from eunoe.workers.stores.data_keys.cached import missing_key
from eunoe.workers.stores.data_keys.wrapping import new_data_key


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
