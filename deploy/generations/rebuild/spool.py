"""A file of records grouped by conversation; a log is larger than the main memory, and interleaves conversations.

Each addition is a transaction that also says how far the topics were read, so that a process that is killed loses
little: the next one reads on from there.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import orjson

from eunoe.streams.record import Record
from eunoe.streams.sealed.log import position_in_log
from eunoe.streams.topics import Topic

_LOCKED_S: Final = 60.0
"""Seconds that a process waits while another one writes."""
_MAKE = """
CREATE TABLE IF NOT EXISTS records (
    key BLOB, topic TEXT, part INTEGER, place INTEGER, number INTEGER, at INTEGER, headers BLOB,
    value BLOB
);
CREATE TABLE IF NOT EXISTS places (
    topic TEXT, part INTEGER, next INTEGER, digest BLOB, PRIMARY KEY (topic, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;
"""
_ADD = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
# the longest first: a process that takes one last would work on alone
_FINISH = """
CREATE INDEX IF NOT EXISTS by_key ON records (key, place, number);
DROP TABLE IF EXISTS conversations;
CREATE TABLE conversations AS
SELECT key, COUNT(DISTINCT number) AS events, MAX(number) AS last FROM records GROUP BY key ORDER BY events DESC, key;
DROP TABLE IF EXISTS taken;
CREATE TABLE taken (number INTEGER);
INSERT INTO taken VALUES (0);
"""
_ALL = "SELECT key, events, last FROM conversations ORDER BY rowid"
_TAKE = "UPDATE taken SET number = number + 1 RETURNING number"
_TAKEN = "SELECT key, events, last FROM conversations WHERE rowid = ?"
_EVENTS = "SELECT SUM(events) FROM conversations"
_READ = "SELECT topic, part, place, at, headers, value FROM records WHERE key = ? ORDER BY place"


@dataclass(frozen=True, slots=True)
class Spooled:
    """A conversation in the spool."""

    key: bytes
    events: int
    last: int = 0
    """The largest position of its records in the log."""


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """The place up to which a partition was read."""

    next: int
    """The first offset that was not read."""
    digest: bytes
    """`digest_of` the record before it."""


Places = Mapping[tuple[str, int], ReadUpTo]
"""Topic and partition → the place up to which it was read."""


class Spool:
    """Keyed records of topics, as they are stored there; written by one process, then read by several."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        # SQLite lets no connection write that reads what another one has changed since, however long it waits: a
        # conversation is taken while others are read
        self._taking = _opened(path, isolation_level=None)

    def close(self) -> None:
        """Close the file."""
        self._taking.close()
        self._file.close()

    def create(self) -> None:
        """Create the empty tables; those that are there stay as they are."""
        self._file.executescript(_MAKE)

    def clear(self) -> None:
        """Forget all records, and how far was read."""
        self.close()
        for name in (self.path.name, f"{self.path.name}-wal", f"{self.path.name}-shm"):
            self.path.with_name(name).unlink(missing_ok=True)
        self._file, self._taking = _opened(self.path), _opened(self.path, isolation_level=None)
        self.create()

    def add(self, records: Sequence[Record], epoch: int | None = None, places: Places | None = None) -> None:
        """Append records of a topic; those of the log with the epoch in which they are read. ``places``: see there.

        A record of the log and its sealed copy count as one.
        """
        read = [(topic, part, one.next, one.digest) for (topic, part), one in (places or {}).items()]
        with self._file:
            self._file.executemany(_ADD, (_row(record, epoch) for record in records))
            self._file.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?)", read)

    def finish(self) -> None:
        """List the conversations, none of them taken, and commit; call it after the last `add`."""
        self._file.executescript(f"BEGIN; {_FINISH} COMMIT;")

    def put_back(self) -> None:
        """Take no conversation for taken any more, once it is finished."""
        with self._file:
            self._file.execute("UPDATE taken SET number = 0")

    def places(self) -> dict[tuple[str, int], ReadUpTo]:
        """Topic and partition → the place up to which it was read."""
        rows = self._file.execute("SELECT topic, part, next, digest FROM places")
        return {(topic, part): ReadUpTo(next_, digest) for topic, part, next_, digest in rows}

    def note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""
        with self._file:
            self._file.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, text))

    def noted(self, name: str) -> str | None:
        """The text under a name."""
        row = self._file.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def size(self) -> int:
        """The number of records."""
        (found,) = self._file.execute("SELECT COALESCE(MAX(rowid), 0) FROM records").fetchone()
        return int(found)

    def events(self) -> int:
        """The number of events, once it is finished: a record and its sealed copy are one."""
        (found,) = self._file.execute(_EVENTS).fetchone()
        return int(found or 0)

    def conversations(self) -> Iterator[Spooled]:
        """All conversations, once it is finished, the longest first; they are not held in memory."""
        return (Spooled(*row) for row in self._file.execute(_ALL))

    def take(self) -> Spooled | None:
        """The next conversation that no process has taken, the longest first; `None` where all are."""
        ((number,),) = self._taking.execute(_TAKE).fetchall()
        row = self._taking.execute(_TAKEN, (number,)).fetchone()
        return None if row is None else Spooled(*row)

    def records(self, key: bytes) -> Iterator[Record]:
        """The records of a conversation, those of each topic in its order."""
        for topic, partition, offset, at, headers, value in self._file.execute(_READ, (key,)):
            found = {name: bytes(text, "latin-1") for name, text in orjson.loads(headers).items()}
            yield Record(Topic(topic), partition, offset, key, value, at, found)


def _opened(path: Path, isolation_level: Literal["DEFERRED"] | None = "DEFERRED") -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_LOCKED_S, isolation_level=isolation_level)
    try:
        file.execute("PRAGMA journal_mode = WAL")
        # a killed process leaves whole transactions; `read_log` checks the rest
        file.execute("PRAGMA synchronous = OFF")
    except sqlite3.Error:
        file.close()
        raise
    return file


def digest_of(record: Record) -> bytes:
    """A digest by which a record is known again."""
    return blake2b(b"%d\n%b\n%b" % (record.timestamp_ms, record.key or b"", record.value), digest_size=16).digest()


def _row(record: Record, epoch: int | None) -> tuple[object, ...]:
    key, topic = record.key or b"", str(record.topic)
    number = record.offset if epoch is None else position_in_log(record, epoch)
    headers = orjson.dumps({name: value.decode("latin-1") for name, value in record.headers.items()})
    place = record.partition, record.offset, number, record.timestamp_ms
    return key, topic, *place, headers, record.value
