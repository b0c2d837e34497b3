"""A ledger of erasures in memory."""

import time
from secrets import token_bytes

from eunoe.workers.stores.erasures.ledgers import SECRET_BYTES, Entry, EntryT, StoredErasures


class MemoryErasures(StoredErasures):
    """In-memory `ErasureLedger`."""

    def __init__(self) -> None:
        self._secret = token_bytes(SECRET_BYTES)
        self._entries: dict[tuple[str, str, str], Entry] = {}
        self._lease: tuple[str, float] = ("", 0.0)

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        return self._secret

    async def lease(self, owner: str, seconds: float) -> bool:
        """Take or keep the right to erase."""
        held_by, until = self._lease
        if held_by not in ("", owner) and time.time() < until:
            return False
        self._lease = (owner, time.time() + seconds)
        return True

    async def release(self, owner: str) -> None:
        """Give the right to erase back."""
        if self._lease[0] == owner:
            self._lease = ("", 0.0)

    async def _add(self, kind: str, *entries: Entry) -> None:
        for entry in entries:
            self._entries.setdefault((kind, entry.key, entry.request_id), entry)

    async def _replace(self, kind: str, entry: Entry) -> None:
        self._entries[kind, entry.key, entry.request_id] = entry

    async def _read(self, kind: str, form: type[EntryT], key: str | None) -> list[EntryT]:
        del kind
        return [one for one in self._entries.values() if isinstance(one, form) and key in (None, one.key)]
