"""A ledger of erasures in a SQLite file, for one machine."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_bytes

from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.erasures.ledgers import SECRET, SECRET_BYTES, Entry, EntryT, StoredErasures, read_entries
from eunoe.workers.stores.sqlite_files import connect, private_file

_BUSY_S = 30.0
_MAKE = """
CREATE TABLE IF NOT EXISTS entries (kind TEXT, key TEXT, request TEXT, body TEXT, PRIMARY KEY (kind, key, request))
"""
_ADD = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)"
_READ = "SELECT body FROM entries WHERE kind = ? AND (? IS NULL OR key = ?) ORDER BY rowid"
_CHANGE = "UPDATE entries SET body = ? WHERE kind = ? AND key = ? AND request = ?"
_MAKE_LEASE = "CREATE TABLE IF NOT EXISTS lease (one INTEGER PRIMARY KEY, owner TEXT, until REAL)"
_LEASE = """
INSERT INTO lease VALUES (1, :owner, :until)
ON CONFLICT (one) DO UPDATE SET owner = :owner, until = :until
WHERE owner = :owner OR until < :now OR until > :now + :longest
"""
_LONGEST_LEASE_S = 120.0
"""Seconds that no lease lasts: one that ends later was taken before the clock was set back, and would never end."""
_RELEASE = "DELETE FROM lease WHERE owner = ?"


class SqliteErasures(StoredErasures):
    """`ErasureLedger` in a file that its owner alone reads; several processes of one machine may use it.

    What is appended is on disk when the method returns.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        await self._change(_ADD, (SECRET, "", "", token_bytes(SECRET_BYTES).hex()))
        (body,) = await self._bodies(SECRET, None)
        return bytes.fromhex(body)

    async def lease(self, owner: str, seconds: float) -> bool:
        """Take or keep the right to erase."""
        now = time.time()
        times = {"until": now + seconds, "now": now, "longest": _LONGEST_LEASE_S}
        return await self._change(_LEASE, {"owner": owner, **times}) > 0

    async def release(self, owner: str) -> None:
        """Give the right to erase back."""
        await self._change(_RELEASE, (owner,))

    async def _add(self, kind: str, *entries: Entry) -> None:
        rows = [(kind, one.key, one.request_id, one.model_dump_json()) for one in entries]

        def add() -> None:
            with self._opened() as file:
                file.executemany(_ADD, rows)

        await asyncio.to_thread(add)

    async def _replace(self, kind: str, entry: Entry) -> None:
        await self._change(_CHANGE, (entry.model_dump_json(), kind, entry.key, entry.request_id))

    async def _read(self, kind: str, form: type[EntryT], key: str | None) -> list[EntryT]:
        return read_entries(form, await self._bodies(kind, key))

    async def _change(self, statement: str, values: tuple[str, ...] | dict[str, str | float]) -> int:
        """Run a statement; returns the number of rows that it changed."""

        def change() -> int:
            with self._opened() as file:
                return file.execute(statement, values).rowcount

        return await asyncio.to_thread(change)

    async def _bodies(self, kind: str, key: str | None) -> list[str]:
        def read() -> list[str]:
            if not self._is_there():
                return []
            with self._opened() as file:
                return [body for (body,) in file.execute(_READ, (kind, key, key))]

        return await asyncio.to_thread(read)

    def _is_there(self) -> bool:
        with self._telling_faults():
            return self._path.exists()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A transaction; raises `Unavailable` where the file cannot be opened, read or written."""
        with self._telling_faults():
            private_file(self._path)
            with closing(connect(self._path, _BUSY_S, transactions=True)) as file, file:
                file.execute(_MAKE)
                file.execute(_MAKE_LEASE)
                yield file

    @contextmanager
    def _telling_faults(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as fault:
            raise Unavailable(f"the ledger of erasures {self._path}: {fault}", "the ledger of erasures") from fault
