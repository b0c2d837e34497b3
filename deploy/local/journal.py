"""The journal of ``conversations``: keeps the records of the embedded broker, which loses them at its end.

The next start produces them again. The order of calls over a kept data directory::

    async with LocalStack(directory, ports) as stack:              # counts the epoch, removes the clean marker
        kept = stack.kept
        kept.check_partitions(partitions)                          # Refused when the number changed
        await create_topics(…)
        journal = Journal(kept.journal)                            # cuts off a torn last line
        if not stack.clean_start:
            await discard_derived_state(stack.urls, keys)          # eunoe.deploy.local.derived
        await replay(journal, publisher, progress)
        writer = JournalWriter(journal, kafka, names, stack.epoch)
        await writer.start()
        …                                                          # workers run; clients are admitted
        # stop: no more clients; all stages drained (lag 0, outboxes sent); workers stopped
        await writer.drain()
        await writer.stop()
        journal.close()
        stack.mark_drained()                                       # leaving the block writes the marker
"""

import asyncio
import contextlib
import io
import os
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from eunoe.deploy.local.kept import sync_directory, write_durably
from eunoe.deploy.local.private import append_whole, open_unbuffered
from eunoe.schemas.base import Time, Value, absent, write_time
from eunoe.schemas.errors import Refused
from eunoe.schemas.versions import ContractError
from eunoe.streams.position import (
    LOG_TIME_HEADER,
    POSITION_HEADER,
    is_copy,
    own_headers,
    record_log_time,
    record_position,
)
from eunoe.streams.record import Message, Publisher, Record
from eunoe.streams.topics import Topic

SYNC_SECONDS = 1.0
"""Most that a crash of the machine loses, in seconds; a crash of the process alone loses no appended line."""
_BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_FILE = re.compile(r"(\d{1,4})\.jsonl")

Progress = Callable[[int, int], None]
"""Called with the number of records done and their total."""


class JournalEntry(Value):
    """A record of ``conversations`` with its first position in the log."""

    epoch: int = Field(ge=0)
    offset: int = Field(ge=0)
    log_time: Time | None
    """`None` means invalid headers or time stamp: the copy becomes a dead letter, as the record did."""
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    sealed: str | None = absent()
    """Id of the data key that value and headers are sealed with (`eunoe.deploy.local.journal_sealing`)."""

    def message(self, partition: int) -> Message:
        """The message that produces the record again, with its first position and log time."""
        position = f"{self.epoch}:{self.offset}".encode()
        headers = (*self.headers, (POSITION_HEADER, position))
        if self.log_time is not None:  # intake refuses a position without a log time
            headers = (*headers, (LOG_TIME_HEADER, write_time(self.log_time).encode()))
        return Message(topic=Topic.CONVERSATIONS, key=self.key, value=self.value, headers=headers, partition=partition)


def entry_of(record: Record, epoch: int) -> JournalEntry | None:
    """The entry for a record that is read in ``epoch``; `None` for a copy, whose original is in the journal."""
    log_time = None
    with contextlib.suppress(ContractError):
        record_position(record, epoch)
        if is_copy(record):
            return None
        log_time = record_log_time(record)
    return JournalEntry(
        epoch=epoch,
        offset=record.offset,
        log_time=log_time,
        key=record.key,
        value=record.value,
        headers=own_headers(record),
    )


class Journal:
    """One append-only file per partition, ``<partition>.jsonl``; a line is a CRC-32 in hex, a space, an entry as JSON.

    Opening cuts off a torn last line, as a crash during a write leaves it; an earlier damaged line raises `Refused`.
    Appended lines go to the operating system at once; whoever appends calls `sync` where `sync_is_due`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[int, io.FileIO] = {}
        self._unsynced: set[int] = set()
        self._synced_at = time.monotonic()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._counts = {partition: _mend(self._path(partition)) for partition in self._partitions_on_disk()}

    def __len__(self) -> int:
        """Number of entries."""
        return sum(self._counts.values())

    @property
    def partitions(self) -> list[int]:
        """Partitions with entries, ascending."""
        return sorted(self._counts)

    def read(self, partition: int) -> Iterator[JournalEntry]:
        """The entries of a partition, in their order."""
        path = self._path(partition)
        if path.exists():
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    entry = _read_line(line)
                    if entry is None:
                        raise _damaged(path, number)
                    yield entry

    def append(self, partition: int, entries: Sequence[JournalEntry]) -> None:
        """Append entries to a partition: all, or none where it raises ``OSError``, as on a full disk."""
        if not entries:
            return
        if partition not in self._files:
            self._files[partition] = _opened(self._path(partition))
        append_whole(self._files[partition], b"".join(map(_write_line, entries)))
        self._counts[partition] = self._counts.get(partition, 0) + len(entries)
        self._unsynced.add(partition)

    async def sync(self) -> None:
        """Write to disk what was appended, in a thread: a disk may take seconds, and lines are appended meanwhile.

        Raises ``OSError``; then, and where it is cancelled, the lines wait for the next call.
        """
        waiting, self._unsynced = self._unsynced, set()
        self._synced_at = time.monotonic()
        try:
            await asyncio.to_thread(_sync, [self._files[partition] for partition in waiting])
        except BaseException:
            self._unsynced |= waiting
            raise

    @property
    def sync_is_due(self) -> bool:
        """Whether lines have waited `SYNC_SECONDS` for `sync`."""
        return bool(self._unsynced) and time.monotonic() - self._synced_at >= SYNC_SECONDS

    def close(self) -> None:
        """Write everything to disk and close the files."""
        _sync([self._files[partition] for partition in self._unsynced])
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._unsynced.clear()

    def _path(self, partition: int) -> Path:
        return self._directory / f"{partition}.jsonl"

    def _partitions_on_disk(self) -> list[int]:
        names = (_FILE.fullmatch(path.name) for path in self._directory.iterdir())
        return sorted(int(name[1]) for name in names if name)


Opener = Callable[[JournalEntry], Awaitable[JournalEntry | None]]
"""Unseals an entry of a journal; gives `None` for one whose key was destroyed."""


@dataclass(slots=True)
class _Batch:
    messages: list[Message]
    size: int = 0

    def add(self, message: Message) -> bool:
        """Add a message; returns whether the batch is full."""
        self.messages.append(message)
        self.size += len(message.value)
        return len(self.messages) >= _BATCH_RECORDS or self.size >= _BATCH_BYTES


async def _as_it_is(entry: JournalEntry) -> JournalEntry:
    return entry


async def replay(
    journal: Journal, publisher: Publisher, progress: Progress | None = None, opened: Opener = _as_it_is
) -> int:
    """Produce all entries again, each partition in its order, with first positions and log times; returns the number.

    ``opened`` unseals an entry, and gives `None` for one that is not produced. It waits for the broker after each
    batch, and raises the exceptions of ``publisher``. A second replay produces copies of the same positions, which
    intake ignores.
    """
    done, total = 0, len(journal)
    for partition in journal.partitions:
        batch = _Batch([])
        for entry in journal.read(partition):
            plain = await opened(entry)
            if plain is not None and batch.add(plain.message(partition)):
                done = await _send(batch, publisher, done)
                _report(progress, done, total)
                batch = _Batch([])
        done = await _send(batch, publisher, done)
        _report(progress, done, total)
    return done


async def _send(batch: _Batch, publisher: Publisher, done: int) -> int:
    if batch.messages:
        await publisher.publish(batch.messages)
    return done + len(batch.messages)


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def write_entries(directory: Path, partition: int, entries: Iterable[JournalEntry]) -> None:
    """Replace the file of a partition in one step; no journal may have it open to append."""
    write_durably(directory / f"{partition}.jsonl", b"".join(map(_write_line, entries)))


def _sync(files: Iterable[io.FileIO]) -> None:
    for file in files:
        os.fsync(file.fileno())


def _opened(path: Path) -> io.FileIO:
    """A file to append to; a new one is on disk under its name, or syncing its lines would not bring them back."""
    is_new = not path.exists()
    file = open_unbuffered(path, "ab")
    if is_new:
        sync_directory(path.parent)
    return file


def _write_line(entry: JournalEntry) -> bytes:
    body = entry.to_json()
    return b"%08x %b\n" % (zlib.crc32(body), body)


def _read_line(line: bytes) -> JournalEntry | None:
    """The entry of a line; `None` for a line that is not whole."""
    checksum, body = line[:8], line[9:-1]
    if not line.endswith(b"\n") or line[8:9] != b" " or checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        return JournalEntry.from_json(body)
    except ValidationError:
        return None


def _mend(path: Path) -> int:
    """Cut off a torn last line; returns the number of entries, raises `Refused` for an earlier damaged line."""
    count = good = 0
    size = path.stat().st_size
    with path.open("r+b") as file:
        for line in file:
            if _read_line(line) is None:
                if good + len(line) < size:
                    raise _damaged(path, count + 1)
                file.truncate(good)
                break
            count, good = count + 1, good + len(line)
    return count


def _damaged(path: Path, line: int) -> Refused:
    return Refused(
        f"{path}: line {line} is damaged; restore the file, or lose that line alone: `sed -i.old {line}d FILE`,"
        " then remove FILE.old"
    )
