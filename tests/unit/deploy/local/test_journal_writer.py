"""The journal where the disk or the key store refuses an entry: what clients were promised is written later."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from eunoe.deploy.local import journal as journals
from eunoe.deploy.local import journal_writer
from eunoe.deploy.local.journal import Journal, JournalEntry
from eunoe.deploy.local.journal_sealing import open_entry
from eunoe.deploy.local.journal_writer import JournalWriter
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.schemas.keys import DataKey, KeyStore
from eunoe.streams.settings import KafkaSettings
from eunoe.streams.topics import TopicNames
from tests.support.disk import room_for
from tests.support.memory.key_store import MemoryKeyStore
from tests.support.valkeys import until_async

PARTITION = TopicPartition("conversations", 0)
ENTRIES = [JournalEntry(epoch=1, offset=n, log_time=None, key=b"t/c", value=b"x" * 90) for n in range(5)]


def writer_of(journal: Journal, keys: KeyStore | None = None) -> JournalWriter:
    return JournalWriter(journal, KafkaSettings(), TopicNames(), 1, keys)


class BusyKeys(MemoryKeyStore):
    """A key store that another process has locked for the first requests."""

    refusals = 2

    async def current(self, conversation: str) -> DataKey:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("the key store: database is locked")
        return await super().current(conversation)


class FedWriter(JournalWriter):
    """A writer to whom a broker gives the entries, and none after them."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, KafkaSettings(), TopicNames(), 1)

    async def _follow(self, started: asyncio.Future[None]) -> None:
        started.set_result(None)
        await self.write(0, ENTRIES)
        self._next[PARTITION] = len(ENTRIES)
        await asyncio.Event().wait()

    async def _ends(self) -> dict[TopicPartition, int]:
        return {PARTITION: len(ENTRIES)}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "_FIRST_PAUSE_SECONDS", 0.001)


def test_of_entries_that_the_disk_does_not_take_whole_nothing_stays(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(0, ENTRIES[:2])
    size = (tmp_path / "0.jsonl").stat().st_size
    with room_for(size + 100), pytest.raises(OSError, match="File too large"):
        journal.append(0, ENTRIES[2:])
    assert ((tmp_path / "0.jsonl").stat().st_size, len(journal)) == (size, 2)
    journal.append(0, ENTRIES[2:])
    journal.close()
    assert list(Journal(tmp_path).read(0)) == ENTRIES


async def test_what_a_busy_key_store_does_not_seal_at_once_is_written_later(tmp_path: Path) -> None:
    keys, journal = BusyKeys(), Journal(tmp_path)
    await writer_of(journal, keys).write(0, ENTRIES)
    journal.close()
    assert [await open_entry(entry, keys) for entry in Journal(tmp_path).read(0)] == ENTRIES


async def test_a_full_disk_is_waited_for_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path)
    writer = writer_of(journal)
    writer.patience_s = 0.01
    with room_for(100), pytest.raises(OSError, match="File too large"):
        await writer.write(0, ENTRIES)
    assert "what clients produce is in memory alone" in caplog.text
    await writer.write(0, ENTRIES)
    journal.close()
    assert (list(Journal(tmp_path).read(0)), writer.written) == (ENTRIES, 5)


async def test_the_log_tells_of_a_full_disk_at_growing_intervals_and_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, writer = [0.0], writer_of(Journal(tmp_path))
    monkeypatch.setattr(journal_writer, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    async def pause(seconds: float) -> None:
        clock[0] += seconds

    async def room_after_300_s() -> None:
        if clock[0] < 300:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_writer, "asyncio", SimpleNamespace(sleep=pause))
    monkeypatch.setattr(journal_writer, "_FIRST_PAUSE_SECONDS", 0.5)
    await writer._until_taken(room_after_300_s, "what clients produce is in memory alone")
    *waits, end = caplog.messages
    assert [int(line.split()[4]) for line in waits] == [0, 12, 24, 48, 96, 192]
    assert end == "the journal goes on after 304 s", "at the first try after that"


async def test_lines_are_appended_while_the_disk_is_slow_to_write_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SYNC_SECONDS", 0.0)
    begun, slow, synced = threading.Event(), threading.Event(), []

    def fsync(descriptor: int) -> None:
        begun.set()
        assert slow.wait(60.0)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(journals, "sync_directory", lambda _path: None)
    kept = Journal(tmp_path)
    writer = writer_of(kept)
    await writer.write(0, ENTRIES[:2])
    writer.sync_beside()
    assert await asyncio.to_thread(begun.wait, 60.0)
    await writer.write(0, ENTRIES[2:])
    writer.sync_beside()  # one at a time
    assert (list(Journal(tmp_path).read(0)), synced) == (ENTRIES, [])
    slow.set()
    while len(synced) < 2:  # of what was appended meanwhile too
        await asyncio.sleep(0)
        writer.sync_beside()
    await writer.stop()
    kept.close()


async def test_a_disk_that_does_not_write_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journals, "SYNC_SECONDS", 0.0)
    kept = Journal(tmp_path)
    writer = writer_of(kept)
    await writer.write(0, ENTRIES)
    refusals, synced = [OSError(28, "No space left on device")] * 2, []

    def fsync(descriptor: int) -> None:
        if refusals:
            raise refusals.pop()
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    while not synced:
        writer.sync_beside()
        await asyncio.sleep(0)
    assert "a power failure would lose what clients produced" in caplog.text
    await writer.stop()
    kept.close()


async def test_lines_whose_writing_is_cut_short_are_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SYNC_SECONDS", 0.0)
    kept = Journal(tmp_path)
    writer = writer_of(kept)
    await writer.write(0, ENTRIES)
    writer.sync_beside()
    await writer.stop()
    assert kept.sync_is_due
    kept.close()
    assert not kept.sync_is_due


def test_a_hole_costs_what_it_covers_and_no_other_line(tmp_path: Path) -> None:
    """As a power failure leaves one: pages are missing, and later ones are there."""
    kept, path = Journal(tmp_path), tmp_path / "0.jsonl"
    kept.append(0, ENTRIES)
    kept.close()
    lines = path.read_bytes().splitlines(keepends=True)
    hole = bytes(len(lines[1]) + 20)
    path.write_bytes(lines[0] + hole + b"".join(lines[2:])[20:])
    with pytest.raises(Refused, match=r"0\.jsonl: line 2 is damaged.*lose that line alone: `sed -i.old 2d FILE`"):
        Journal(tmp_path)
    path.write_bytes(b"".join(line for n, line in enumerate(path.read_bytes().splitlines(keepends=True), 1) if n != 2))
    assert list(Journal(tmp_path).read(0)) == [ENTRIES[0], *ENTRIES[3:]]


async def test_a_stop_waits_for_a_full_disk_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_writer, "_FINISH_SECONDS", 0.001)
    journal = Journal(tmp_path)
    writer = FedWriter(journal)
    with room_for(100):
        await writer.start()
        stop = asyncio.create_task(writer.outlast())
        await until_async(lambda: "the stop waits for the journal" in caplog.text, "the stop does not wait")
        assert not stop.done()
    await stop
    journal.close()
    assert list(Journal(tmp_path).read(0)) == ENTRIES
    assert "lost" not in caplog.text


async def test_a_stop_does_not_wait_for_a_full_disk_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_writer, "_FINISH_SECONDS", 0.001)
    journal = Journal(tmp_path)
    writer = FedWriter(journal)
    with room_for(100):
        await writer.start()
        writer.patience_s = 0.0
        await writer.outlast()
    journal.close()
    assert "the last of what clients produced is lost: [Errno 27] File too large" in caplog.text


async def test_a_stop_of_a_journal_that_has_all_does_not_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path)
    writer = FedWriter(journal)
    await writer.start()
    await writer.outlast()
    journal.close()
    assert (list(Journal(tmp_path).read(0)), caplog.messages) == (ENTRIES, [])
