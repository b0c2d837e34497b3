"""A ledger of erasures in a SQLite file, for one machine."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_bytes

from eunoe.schemas.erasure import (
    Erasure,
    ErasureDone,
    ErasureRefused,
    ErasureRequest,
    RetentionPolicy,
    without_ids,
)
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.erasures.ledgers import (
    BEGUN,
    DONE,
    REFUSED,
    REQUESTED,
    RETENTION,
    SECRET,
    SECRET_BYTES,
    Entry,
    read_entries,
)
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


class SqliteErasures:
    """`ErasureLedger` in a file that its owner alone reads; several processes of one machine may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        await self._change(_ADD, (SECRET, "", "", token_bytes(SECRET_BYTES).hex()))
        (body,) = await self._read(SECRET, None)
        return bytes.fromhex(body)

    async def request(self, request: ErasureRequest) -> None:
        """Append a request, once; on disk when this returns."""
        await self._add(REQUESTED, request)

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all."""
        return read_entries(ErasureRequest, await self._read(REQUESTED, key))

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure, once; on disk when this returns."""
        await self._add(BEGUN, erasure)

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out, once; on disk when this returns."""
        for request in await self.requests(done.key):
            if request.request_id == done.request_id and request != (bare := without_ids(request)):
                await self._change(_CHANGE, (bare.model_dump_json(), REQUESTED, done.key, done.request_id))
        await self._add(DONE, done)

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all."""
        return read_entries(Erasure, await self._read(BEGUN, key))

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out."""
        return read_entries(ErasureDone, await self._read(DONE, key))

    async def refuse(self, refused: ErasureRefused) -> None:
        """Append that a request will not be carried out, once."""
        await self._add(REFUSED, refused)

    async def refusals(self, key: str | None = None) -> list[ErasureRefused]:
        """The requests that will not be carried out."""
        return read_entries(ErasureRefused, await self._read(REFUSED, key))

    async def set_retention(self, policy: RetentionPolicy) -> None:
        """Append a tenant's policy."""
        await self._add(RETENTION, policy)

    async def retentions(self, tenant: str | None = None) -> list[RetentionPolicy]:
        """All policies, in their order."""
        return read_entries(RetentionPolicy, await self._read(RETENTION, tenant))

    async def lease(self, owner: str, seconds: float) -> bool:
        """Take or keep the right to erase."""
        now = time.time()
        times = {"until": now + seconds, "now": now, "longest": _LONGEST_LEASE_S}
        return await self._change(_LEASE, {"owner": owner, **times}) > 0

    async def release(self, owner: str) -> None:
        """Give the right to erase back."""
        await self._change(_RELEASE, (owner,))

    async def _add(self, kind: str, entry: Entry) -> None:
        await self._change(_ADD, (kind, entry.key, entry.request_id, entry.model_dump_json()))

    async def _change(self, statement: str, values: tuple[str, ...] | dict[str, str | float]) -> int:
        """Run a statement; returns the number of rows that it changed."""

        def change() -> int:
            with self._opened() as file:
                return file.execute(statement, values).rowcount

        return await asyncio.to_thread(change)

    async def _read(self, kind: str, key: str | None) -> list[str]:
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
