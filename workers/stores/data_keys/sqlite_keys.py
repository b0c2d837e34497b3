"""Data keys in an SQLite file: a deleted key is overwritten in it, and its journal is removed with each change."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import (
    DataKey,
    Destroyed,
    Destruction,
    KeyRecord,
    KeyStoreStatus,
)
from eunoe.workers.stores.data_keys.cached import missing_key
from eunoe.workers.stores.data_keys.wrapping import (
    ROOT,
    OperatorKeys,
    StoreSecrets,
    WrappedKey,
    key_record,
    new_data_key,
)
from eunoe.workers.stores.sqlite_files import connect, private_file

T = TypeVar("T")

_BUSY_S: Final = 10.0
_AT_ONCE: Final = 500
"""Keys that one transaction wraps anew."""
_GIVE_WAY_S: Final = 0.03
"""Seconds between two of them, in which SQLite lets others that wait look again."""
_IS_MADE: Final = "SELECT 1 FROM sqlite_master WHERE name = 'store'"
_TABLES: Final = """
CREATE TABLE store (name TEXT PRIMARY KEY, version INTEGER NOT NULL, sealed BLOB NOT NULL);
CREATE TABLE keys (
  number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, subject TEXT NOT NULL, current INTEGER NOT NULL,
  version INTEGER, sealed BLOB, created TEXT, destroyed TEXT, why TEXT);
CREATE INDEX of_subject ON keys (subject);
"""


class SqliteKeyStore:
    """`KeyStore` in a file, for the processes of one machine. All work on the file is done in a thread."""

    def __init__(self, path: Path, keks: OperatorKeys) -> None:
        self._path = path
        self._keks = keks
        self._thread = ThreadPoolExecutor(1, "key-store")
        self._name = f"the key store {path}"
        self._database: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._secrets: StoreSecrets | None = None

    @classmethod
    async def open(cls, path: Path, keks: OperatorKeys) -> Self:
        """Open the file, or make it; its owner alone reads it.

        Raises `Refused` for another operator's key and for a file that is no key store, `Unavailable`.
        """
        store = cls(path, keks)
        try:
            await store._run(store._open)
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    async def current(self, conversation: str) -> DataKey:
        """The current key, made where there is none."""
        return await self._run(lambda: self._current(self._opened.subject(conversation)))

    async def get(self, key_id: str) -> DataKey | Destroyed:
        """A key or its tombstone."""
        return await self._run(lambda: self._get(key_id))

    async def replace(self, conversation: str) -> DataKey:
        """Make another key current."""
        return await self._run(lambda: self._replace(self._opened.subject(conversation)))

    async def destroy(self, key_id: str, why: Destruction) -> None:
        """Overwrite a key in the file; only its tombstone is left."""
        await self._run(lambda: self._destroy(key_id, why))

    async def keys(self, conversation: str) -> list[KeyRecord]:
        """All keys of a conversation, the oldest first."""
        return await self._run(lambda: self._keys(self._opened.subject(conversation)))

    async def status(self) -> KeyStoreStatus:
        """The identity of the store and the count of its tombstones."""
        return await self._run(self._status)

    async def rewrap(self) -> int:
        """Wrap all keys with the operator's newest key; returns how many were wrapped with an older one."""
        return await self._run(self._rewrap)

    @property
    def _opened(self) -> StoreSecrets:
        if self._secrets is None:
            raise Unavailable(f"{self._name} is closed", self._name)
        return self._secrets

    async def _run(self, work: Callable[[], T]) -> T:
        def translated() -> T:
            with self._translating_faults():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated)

    @contextmanager
    def _translating_faults(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as fault:
            raise Unavailable(f"{self._name}: {fault}", self._name) from fault
        except sqlite3.DatabaseError as fault:
            raise Refused(f"{self._name}: {fault}: restore it, or set EUNOE_KEYS__STORE to the right file") from fault

    def _open(self) -> None:
        found = private_file(self._path)
        self._inode = (found.st_dev, found.st_ino)
        self._database = connect(self._path, _BUSY_S, transactions=False)
        if not self._ask(_IS_MADE):
            self._make()
        ((version, sealed),) = self._ask("SELECT version, sealed FROM store WHERE name = ?", ROOT)
        self._secrets = StoreSecrets.opened(self._keks, self._name, WrappedKey(version, sealed))

    def _make(self) -> None:
        """Make tables and secret; another process may just have made them."""
        with self._transaction() as database:
            if database.execute(_IS_MADE).fetchall():
                return
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            wrapped = self._keks.new_root()
            database.execute("INSERT INTO store VALUES (?, ?, ?)", (ROOT, wrapped.version, wrapped.sealed))

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self._secrets = None, None

    def _checked(self) -> sqlite3.Connection:
        """The open file; raises ``OSError`` where another one stands in its place: a key would be lost in it."""
        found = self._path.stat()
        if self._database is None or (found.st_dev, found.st_ino) != self._inode:
            raise OSError("another file stands in its place; start this process again")
        return self._database

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._checked()
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _ask(self, question: str, *words: str) -> list[Any]:
        return self._checked().execute(question, words).fetchall()

    def _current(self, subject: str) -> DataKey:
        question = "SELECT id, version, sealed FROM keys WHERE subject = ? AND current"
        rows = self._ask(question, subject)
        if not rows:
            with self._transaction() as database:  # another process may just have made it
                rows = database.execute(question, (subject,)).fetchall()
                if not rows:
                    return self._insert(database, subject)
        ((id_, version, sealed),) = rows
        return self._opened.unwrap(id_, WrappedKey(version, sealed))

    def _insert(self, database: sqlite3.Connection, subject: str) -> DataKey:
        key = new_data_key()
        wrapped = self._opened.wrap(key)
        database.execute(
            "INSERT INTO keys (id, subject, current, version, sealed, created) VALUES (?, ?, 1, ?, ?, ?)",
            (key.id, subject, wrapped.version, wrapped.sealed, _now()),
        )
        return key

    def _get(self, key_id: str) -> DataKey | Destroyed:
        rows = self._ask("SELECT version, sealed, destroyed, why FROM keys WHERE id = ?", key_id)
        if not rows:
            raise missing_key(key_id, self._name)
        ((version, sealed, destroyed, why),) = rows
        if destroyed is not None:
            return Destroyed(key_id, Destruction(why), datetime.fromisoformat(destroyed))
        return self._opened.unwrap(key_id, WrappedKey(version, sealed))

    def _replace(self, subject: str) -> DataKey:
        with self._transaction() as database:
            database.execute("UPDATE keys SET current = 0 WHERE subject = ?", (subject,))
            return self._insert(database, subject)

    def _destroy(self, key_id: str, why: Destruction) -> None:
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO keys (id, subject, current) VALUES (?, '', 0)", (key_id,))
            database.execute(
                "UPDATE keys SET version = NULL, sealed = NULL, current = 0, destroyed = ?, why = ?"
                " WHERE id = ? AND destroyed IS NULL",
                (_now(), why.value, key_id),
            )

    def _keys(self, subject: str) -> list[KeyRecord]:
        rows = self._ask(
            "SELECT id, current, created, destroyed, why FROM keys WHERE subject = ? ORDER BY number", subject
        )
        return [key_record(*row) for row in rows]

    def _status(self) -> KeyStoreStatus:
        ((count,),) = self._ask("SELECT count(*) FROM keys WHERE destroyed IS NOT NULL")
        return KeyStoreStatus(self._opened.id, count, self._keks.version)

    def _rewrap(self) -> int:
        """Wrap a few keys at a time: while one transaction wrapped all, nobody else could make or even read a key."""
        numbers = [0]
        while some := self._rewrap_some(numbers[-1]):
            numbers += some
            time.sleep(_GIVE_WAY_S)
        with self._transaction() as database:
            ((version, sealed),) = database.execute("SELECT version, sealed FROM store").fetchall()
            if version != self._keks.version:
                root = self._keks.wrap(ROOT, self._keks.unwrap(ROOT, WrappedKey(version, sealed), self._name))
                database.execute("UPDATE store SET version = ?, sealed = ?", (root.version, root.sealed))
        return len(numbers) - 1

    def _rewrap_some(self, after: int) -> list[int]:
        """Wrap the next keys anew that are under an older version; returns their numbers, none where no more are."""
        question = (
            "SELECT number, id, version, sealed FROM keys WHERE number > ? AND version < ? ORDER BY number LIMIT ?"
        )
        with self._transaction() as database:
            old = database.execute(question, (after, self._keks.version, _AT_ONCE)).fetchall()
            for _, id_, version, sealed in old:
                wrapped = self._opened.wrap(self._opened.unwrap(id_, WrappedKey(version, sealed)))
                change = (wrapped.version, wrapped.sealed, id_)
                database.execute("UPDATE keys SET version = ?, sealed = ? WHERE id = ?", change)
        return [number for number, *_ in old]


def _now() -> str:
    return datetime.now(UTC).isoformat()
