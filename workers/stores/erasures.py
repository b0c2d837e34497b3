"""Ledgers of erasures: in memory, in a SQLite file (one machine), in a Redis of its own (several).

Never the Redis of derived state: that may be thrown away, or restored from a backup that knows of no erasure.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes

from eunoe.schemas.erasure import Erasure, ErasureDone, ErasureRequest
from eunoe.schemas.errors import Unavailable
from eunoe.workers.stores.connection import RedisClient, RedisConnection, as_table, as_text
from eunoe.workers.stores.keys import applied_erasures_key, erasures_key

_BUSY_S = 30.0
_MAKE = """
CREATE TABLE IF NOT EXISTS entries (kind TEXT, key TEXT, request TEXT, body TEXT, PRIMARY KEY (kind, key, request))
"""
_ADD = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)"
_READ = "SELECT body FROM entries WHERE kind = ? AND (? IS NULL OR key = ?) ORDER BY rowid"

REQUESTED, BEGUN, DONE, SECRET = "requested", "begun", "done", "secret"
SECRET_BYTES = 32

Entry = ErasureRequest | Erasure | ErasureDone


class MemoryErasures:
    """In-memory `ErasureLedger`."""

    def __init__(self) -> None:
        self._secret = token_bytes(SECRET_BYTES)
        self._requested: dict[tuple[str, str], ErasureRequest] = {}
        self._begun: dict[tuple[str, str], Erasure] = {}
        self._done: dict[tuple[str, str], ErasureDone] = {}

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        return self._secret

    async def request(self, request: ErasureRequest) -> None:
        """Append a request, once."""
        self._requested.setdefault((request.key, request.request_id), request)

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all."""
        return [one for one in self._requested.values() if key in (None, one.key)]

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure, once."""
        self._begun.setdefault((erasure.key, erasure.request_id), erasure)

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out, once."""
        self._done.setdefault((done.key, done.request_id), done)

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all."""
        return [one for one in self._begun.values() if key in (None, one.key)]

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out."""
        return [one for one in self._done.values() if key in (None, one.key)]


class SqliteErasures:
    """`ErasureLedger` in a file that its owner alone reads; several processes of one machine may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        with self._opened() as file:
            file.execute(_ADD, (SECRET, "", "", token_bytes(SECRET_BYTES).hex()))
        (body,) = self._read(SECRET, None)
        return bytes.fromhex(body)

    async def request(self, request: ErasureRequest) -> None:
        """Append a request, once; on disk when this returns."""
        self._add(REQUESTED, request)

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all."""
        return [ErasureRequest.from_json(body) for body in self._read(REQUESTED, key)]

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure, once; on disk when this returns."""
        self._add(BEGUN, erasure)

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out, once; on disk when this returns."""
        self._add(DONE, done)

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all."""
        return [Erasure.from_json(body) for body in self._read(BEGUN, key)]

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out."""
        return [ErasureDone.from_json(body) for body in self._read(DONE, key)]

    def _add(self, kind: str, entry: Entry) -> None:
        with self._opened() as file:
            file.execute(_ADD, (kind, entry.key, entry.request_id, entry.model_dump_json()))

    def _read(self, kind: str, key: str | None) -> list[str]:
        if not self._path.exists():
            return []
        with self._opened() as file:
            return [body for (body,) in file.execute(_READ, (kind, key, key))]

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A transaction; raises `Unavailable` where the file cannot be opened, read or written."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            file = sqlite3.connect(self._path, timeout=_BUSY_S)
            try:
                file.execute("PRAGMA journal_mode = DELETE")
                file.execute("PRAGMA synchronous = FULL")
                with file:
                    file.execute(_MAKE)
                    yield file
            finally:
                file.close()
        except (OSError, sqlite3.Error) as fault:
            raise Unavailable(f"the ledger of erasures {self._path}: {fault}", "the ledger of erasures") from fault


class RedisErasures:
    """`ErasureLedger` in a Redis of its own, ordered by time. ``prefix``: of all names."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._prefix = prefix

    async def secret(self) -> bytes:
        """The secret that signs receipts."""
        name = erasures_key(self._prefix, SECRET)
        await self._redis.command("SETNX", name, token_bytes(SECRET_BYTES).hex())
        return bytes.fromhex(as_text(await self._redis.command("GET", name)))

    async def request(self, request: ErasureRequest) -> None:
        """Append a request, once."""
        await self._add(REQUESTED, request)

    async def requests(self, key: str | None = None) -> list[ErasureRequest]:
        """The requests about a conversation, or all."""
        found = [ErasureRequest.from_json(body) for body in await self._read(REQUESTED)]
        return sorted((one for one in found if key in (None, one.key)), key=lambda one: one.at)

    async def begin(self, erasure: Erasure) -> None:
        """Append an erasure, once."""
        await self._add(BEGUN, erasure)

    async def finish(self, done: ErasureDone) -> None:
        """Append that an erasure was carried out, once."""
        await self._add(DONE, done)

    async def erasures(self, key: str | None = None) -> list[Erasure]:
        """The erasures of a conversation, or of all."""
        found = [Erasure.from_json(body) for body in await self._read(BEGUN)]
        return sorted((one for one in found if key in (None, one.key)), key=lambda one: one.at)

    async def done(self, key: str | None = None) -> list[ErasureDone]:
        """The erasures that were carried out."""
        found = [ErasureDone.from_json(body) for body in await self._read(DONE)]
        return sorted((one for one in found if key in (None, one.key)), key=lambda one: one.at)

    async def _add(self, kind: str, entry: Entry) -> None:
        field = f"{entry.key} {entry.request_id}"
        await self._redis.command("HSETNX", erasures_key(self._prefix, kind), field, entry.model_dump_json())

    async def _read(self, kind: str) -> Sequence[str]:
        found = as_table(await self._redis.command("HGETALL", erasures_key(self._prefix, kind)))
        return list(found.values())


class AppliedErasures:
    """The erasures that the state store has seen; one restored from a backup lacks the later ones."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._redis = RedisConnection(client)
        self._key = applied_erasures_key(prefix)

    async def all(self) -> set[tuple[str, str]]:
        """(conversation key, request id) of each; raises `Unavailable`."""
        found = as_table(await self._redis.command("HGETALL", self._key))
        pairs = (field.partition(" ") for field in found)
        return {(key, request_id) for key, _, request_id in pairs}

    async def add(self, key: str, request_id: str) -> None:
        """Note an erasure; raises `Unavailable`."""
        await self._redis.command("HSET", self._key, f"{key} {request_id}", "1")
