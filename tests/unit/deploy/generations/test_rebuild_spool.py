"""The files of a rebuild: what is kept of a run that was killed, for whom, and for how long."""

import asyncio
import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from eunoe.deploy.generations.rebuild import reading
from eunoe.deploy.generations.rebuild.keeping import folder_of, kept_folder, remove_folder
from eunoe.deploy.generations.rebuild.plan import RebuildPlan
from eunoe.deploy.generations.rebuild.reading import LogRead, read_log
from eunoe.deploy.generations.rebuild.share import Room
from eunoe.deploy.generations.rebuild.spool import Spool, Spooled
from eunoe.deploy.settings import Settings
from eunoe.schemas.erasure import ErasedPart
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.position import position
from eunoe.streams.record import Record
from eunoe.streams.topics import Topic
from eunoe.workers.stores.records.generations import Generation, GenerationState

MADE = Generation(name="v2", state=GenerationState.BUILDING, made_at=datetime(2026, 3, 1, tzinfo=UTC), source="v1")
DAY_S = 86_400.0
SETTINGS = Settings(kafka="127.0.0.1:1")


def record(offset: int, value: str = "said") -> Record:
    return Record(Topic.CONVERSATIONS, 0, offset, b"default/c", f"{value} {offset}".encode(), 1_000 + offset, {})


class Log:
    """The one partition of a log, whose reader is killed where it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, records: list[Record]) -> None:
        self.records = records
        self.dies_at: int | None = None
        self.read: list[int] = []
        self.is_closed = False
        monkeypatch.setattr(reading, "_BATCH", 10)
        for name in ("partitions_of", "check_log_is_open", "read_both", "read_range"):
            monkeypatch.setattr(reading, name, getattr(self, name))

    async def partitions_of(self, *_: Any) -> list[int]:
        return [1]

    async def check_log_is_open(self, *_: Any) -> None: ...

    async def read_both(self, _kafka: Any, _names: Any, begin: Mapping[tuple[str, int], int]) -> AsyncGenerator[Record]:
        try:
            for one in self.records[begin.get((Topic.CONVERSATIONS, 0), 0) :]:
                if one.offset == self.dies_at:
                    raise KeyboardInterrupt
                self.read.append(one.offset)
                yield one
        finally:
            self.is_closed = True

    async def read_range(self, *place: Any) -> AsyncIterator[Record]:
        *_, (first, end) = place
        for one in self.records[first:end]:
            yield one

    async def spooled(self, path: Path, erased: Mapping[str, ErasedPart] | None = None) -> LogRead:
        self.read.clear()
        spool = Spool(path)
        try:
            return await read_log(SETTINGS, RebuildPlan("v2"), spool, lambda _: None, erased or {})
        finally:
            spool.close()


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Log:
    """A log of 45 records, of which a run that was killed has read 37 and spooled 30."""
    log = Log(monkeypatch, [record(offset) for offset in range(45)])
    log.dies_at = 37
    with pytest.raises(KeyboardInterrupt):
        await log.spooled(tmp_path / "spool")
    log.dies_at = None
    return log


async def test_what_was_spooled_is_not_read_again_and_what_the_log_gained_is(log: Log, tmp_path: Path):
    read = await log.spooled(tmp_path / "spool")
    assert (read.before, read.events, read.ends, log.read) == (30, 45, {0: 45}, list(range(30, 45)))
    log.records += [record(offset) for offset in range(45, 50)]
    read = await log.spooled(tmp_path / "spool")
    assert (read.before, read.events, read.ends, log.read) == (45, 50, {0: 50}, list(range(45, 50)))
    spool = Spool(tmp_path / "spool")
    assert [*spool.records(b"default/c")] == log.records
    assert [*spool.conversations()] == [Spooled(b"default/c", 50, position(0, 49))]
    spool.close()


async def test_a_spool_that_cannot_be_written_leaves_no_reader_of_the_log_open(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    log.is_closed = False
    monkeypatch.setattr(Spool, "add", full)
    with pytest.raises(sqlite3.OperationalError):
        await log.spooled(tmp_path / "spool")
    assert log.is_closed


def test_conversations_are_taken_once_by_all_processes_the_longest_first(tmp_path: Path):
    lengths = {b"default/short": 2, b"default/long": 9, b"default/middle": 5, b"default/other": 5}
    with closing(Spool(tmp_path / "spool")) as spool, closing(Spool(tmp_path / "spool")) as other:
        spool.create()
        spool.add([replace(record(n), key=key) for key, events in lengths.items() for n in range(events)])
        spool.finish()
        taken = [one.take() for one in (spool, other, other, spool)]
        assert [(one.key, one.events) for one in taken if one] == [
            (b"default/long", 9),
            (b"default/middle", 5),
            (b"default/other", 5),
            (b"default/short", 2),
        ]
        assert (spool.take(), other.take()) == (None, None)
        spool.finish()  # another run begins
        assert other.take() == taken[0]


async def test_a_long_conversation_leaves_room_for_others_and_waits_for_its_own():
    room = Room(conversations=3, events=100)
    await room.enter(1_000)
    await room.enter(50)
    for late in (room.wait(), room.enter(1)):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await late
    waiting = asyncio.create_task(room.enter(20))
    room.leave(1_000)
    await waiting
    await room.enter(30)
    assert await asyncio.wait_for(_is_full(room), 1)


async def _is_full(room: Room) -> bool:
    try:
        async with asyncio.timeout(0.01):
            await room.wait()
    except TimeoutError:
        return True
    return False


async def test_the_spool_of_another_log_is_not_believed(log: Log, tmp_path: Path):
    log.records = [record(offset, "another") for offset in range(45)]
    read = await log.spooled(tmp_path / "spool")
    assert (read.before, read.events, log.read) == (0, 45, list(range(45)))


async def test_what_was_erased_since_leaves_the_file(log: Log, tmp_path: Path):
    assert b"said 5" in (tmp_path / "spool").read_bytes()
    part = ErasedPart("default/c", "salt", until=position(0, 20))
    read = await log.spooled(tmp_path / "spool", {"default/c": part})
    assert (read.before, read.events, len(log.read)) == (0, 45, 45)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"said 5" not in kept
    assert b"said 25" in kept


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def interrupted(generation: Generation = MADE) -> Path:
    def run() -> None:
        with kept_folder("p", generation, DAY_S) as folder:
            (folder / "spool").write_text("said")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    return folder_of("p", generation)


def test_a_folder_is_its_owners_is_found_again_and_goes_at_the_end(place: Path):
    folder = interrupted()
    assert folder.stat().st_mode & 0o777 == 0o700
    with kept_folder("p", MADE, DAY_S) as again:
        assert again == folder
        assert (again / "spool").read_text() == "said"
        with pytest.raises(Refused, match="another process"), kept_folder("p", MADE, DAY_S):
            pass
        with pytest.raises(Refused, match="stop that first"):
            remove_folder("p", MADE)
    assert [*place.iterdir()] == []


def test_a_folder_that_another_process_removes_as_it_ends_is_not_locked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock = interrupted(), fcntl.flock

    def removed_first(file: IO[str], how: int) -> None:
        shutil.rmtree(folder)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with pytest.raises(Refused, match="another process"), kept_folder("p", MADE, DAY_S):
        pass
    assert [*place.iterdir()] == []


def test_a_generation_begun_anew_has_another_folder_and_a_dropped_one_none(place: Path):
    later = MADE.model_copy(update={"made_at": datetime(2026, 3, 2, tzinfo=UTC)})
    folder = interrupted()
    assert folder_of("p", later) != folder != folder_of("q", MADE)
    remove_folder("p", later)
    assert folder.exists()
    remove_folder("p", MADE)
    assert [*place.iterdir()] == []


def test_old_folders_that_nobody_uses_are_swept(place: Path):
    old, used, young = (interrupted(MADE.model_copy(update={"name": name})) for name in ("old", "used", "young"))
    left = Path(tempfile.mkdtemp(prefix="eunoe-rebuild-"))
    for folder in (old, used):
        os.utime(folder / "lock", (time.time() - 2 * DAY_S,) * 2)
    os.utime(left, (time.time() - 2 * DAY_S,) * 2)
    with (used / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        interrupted()
    assert {*place.iterdir()} == {used, young, folder_of("p", MADE)}


def test_a_folder_that_others_can_read_is_refused(place: Path):
    folder = interrupted()
    folder.chmod(0o755)
    with pytest.raises(Refused, match="this user alone"), kept_folder("p", MADE, DAY_S):
        pass


def test_a_conversation_is_taken_while_another_one_is_read_and_a_process_takes_one(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with closing(Spool(path)) as one, closing(Spool(path)) as other:
        one.create()
        one.add([replace(record(number), key=b"default/c%d" % (number % 3)) for number in range(300)], 0)
        one.finish()
        first = one.take()
        assert first is not None
        reading = one.records(first.key)
        next(reading)
        second, third = other.take(), one.take()
        assert {taken.key for taken in (first, second, third) if taken} == {b"default/c0", b"default/c1", b"default/c2"}
        assert (one.take(), other.take()) == (None, None)
        assert len(list(reading)) == 99


def fill(path: Path) -> None:
    """Add more records to a new spool than it has room for."""
    with closing(Spool(path)) as spool:
        spool.create()
        spool._file.execute("PRAGMA max_page_count = 8")
        spool.add([record(number, "x" * 10_000) for number in range(20)])


def test_a_full_disk_is_told_and_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = r"rebuild in .* cannot be written: database or disk is full; make room there"
    with pytest.raises(Unavailable, match=told), kept_folder("p", MADE, DAY_S) as folder:
        fill(folder / "log.sqlite")
    assert folder_of("p", MADE).is_dir()


def test_a_damaged_file_is_told_and_the_folder_to_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "torn").write_bytes(b"torn" * 2_000)
    told = rf"rebuild in {folder_of('p', MADE)} are damaged: file is not a database; remove that folder"
    with pytest.raises(Unavailable, match=told), kept_folder("p", MADE, DAY_S):
        Spool(tmp_path / "torn")
    assert str(tmp_path / "torn") not in {file.path for file in psutil.Process().open_files()}
