"""A file of records grouped by conversation; a log is larger than the main memory, and interleaves conversations."""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from eunoe.streams.record import Record
from eunoe.streams.topics import Topic

SHARDS = 1024
"""Number of parts that the conversations are hashed into; each process takes some of the parts."""

_MAKE = """
CREATE TABLE records (
    shard INTEGER, key BLOB, part INTEGER, place INTEGER, at INTEGER, headers BLOB, value BLOB
)
"""
_ADD = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)"
_INDEX = "CREATE INDEX by_key ON records (shard, key, place)"
_KEYS = "SELECT key, COUNT(*) FROM records WHERE shard % ? = ? GROUP BY shard, key ORDER BY shard, key"
_READ = "SELECT part, place, at, headers, value FROM records WHERE shard = ? AND key = ? ORDER BY place"


@dataclass(frozen=True, slots=True)
class Spooled:
    """A conversation in the spool."""

    key: bytes
    events: int


class Spool:
    """The keyed records of one topic; written by one process, then read by several."""

    def __init__(self, path: Path, topic: Topic = Topic.CONVERSATIONS) -> None:
        self._topic = topic
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA synchronous = OFF")  # after a crash the spool is written anew
        self._file.execute("PRAGMA journal_mode = OFF")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def create(self) -> None:
        """Create the empty table."""
        self._file.execute(_MAKE)

    def add(self, records: Sequence[Record]) -> None:
        """Append records; those of one conversation in the order of their offsets."""
        self._file.executemany(_ADD, map(_row, records))

    def finish(self) -> None:
        """Create the index and commit; call it after the last `add`."""
        self._file.execute(_INDEX)
        self._file.commit()

    def conversations(self, share: int, shares: int) -> list[Spooled]:
        """The conversations of share number ``share`` of ``shares``, from 0."""
        return [Spooled(key, events) for key, events in self._file.execute(_KEYS, (shares, share))]

    def records(self, key: bytes) -> Iterator[Record]:
        """The records of a conversation in log order."""
        for partition, offset, at, headers, value in self._file.execute(_READ, (_shard(key), key)):
            found = {name: bytes(text, "latin-1") for name, text in orjson.loads(headers).items()}
            yield Record(self._topic, partition, offset, key, value, at, found)


def _row(record: Record) -> tuple[object, ...]:
    key = record.key or b""
    headers = orjson.dumps({name: value.decode("latin-1") for name, value in record.headers.items()})
    return _shard(key), key, record.partition, record.offset, record.timestamp_ms, headers, record.value


def _shard(key: bytes) -> int:
    return zlib.crc32(key) % SHARDS
