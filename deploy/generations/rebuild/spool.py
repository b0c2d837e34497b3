"""A file of records grouped by conversation; a log is larger than the main memory, and interleaves conversations."""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from eunoe.streams.record import Record
from eunoe.streams.sealed_log import position_in_log
from eunoe.streams.topics import Topic

SHARDS = 1024
"""Number of parts that the conversations are hashed into; each process takes some of the parts."""

_MAKE = """
CREATE TABLE records (
    shard INTEGER, key BLOB, topic TEXT, part INTEGER, place INTEGER, number INTEGER, at INTEGER, headers BLOB,
    value BLOB
)
"""
_ADD = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INDEX = "CREATE INDEX by_key ON records (shard, key, place)"
_KEYS = "SELECT key, COUNT(DISTINCT number) FROM records WHERE shard % ? = ? GROUP BY shard, key ORDER BY shard, key"
_READ = "SELECT topic, part, place, at, headers, value FROM records WHERE shard = ? AND key = ? ORDER BY place"


@dataclass(frozen=True, slots=True)
class Spooled:
    """A conversation in the spool."""

    key: bytes
    events: int


class Spool:
    """Keyed records of topics, as they are stored there; written by one process, then read by several."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA synchronous = OFF")  # after a crash the spool is written anew
        self._file.execute("PRAGMA journal_mode = OFF")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def create(self) -> None:
        """Create the empty table."""
        self._file.execute(_MAKE)

    def add(self, records: Sequence[Record], epoch: int | None = None) -> None:
        """Append records of a topic; those of the log with the epoch in which they are read.

        A record of the log and its sealed copy count as one.
        """
        self._file.executemany(_ADD, (_row(record, epoch) for record in records))

    def finish(self) -> None:
        """Create the index and commit; call it after the last `add`."""
        self._file.execute(_INDEX)
        self._file.commit()

    def conversations(self, share: int, shares: int) -> list[Spooled]:
        """The conversations of share number ``share`` of ``shares``, from 0."""
        return [Spooled(key, events) for key, events in self._file.execute(_KEYS, (shares, share))]

    def records(self, key: bytes) -> Iterator[Record]:
        """The records of a conversation, those of each topic in its order."""
        for topic, partition, offset, at, headers, value in self._file.execute(_READ, (_shard(key), key)):
            found = {name: bytes(text, "latin-1") for name, text in orjson.loads(headers).items()}
            yield Record(Topic(topic), partition, offset, key, value, at, found)


def _row(record: Record, epoch: int | None) -> tuple[object, ...]:
    key, topic = record.key or b"", str(record.topic)
    number = record.offset if epoch is None else position_in_log(record, epoch)
    headers = orjson.dumps({name: value.decode("latin-1") for name, value in record.headers.items()})
    place = record.partition, record.offset, number, record.timestamp_ms
    return _shard(key), key, topic, *place, headers, record.value


def _shard(key: bytes) -> int:
    return zlib.crc32(key) % SHARDS
