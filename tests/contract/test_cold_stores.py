"""One contract for all cold stores: in memory, in a folder, behind obstore."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from obstore.exceptions import GenericError
from obstore.store import LocalStore
from obstore.store import MemoryStore as ObstoreMemory

from eunoe.deploy.local.ports import free_port
from eunoe.schemas.errors import FileUnreadable, Refused, SnapshotLost, Unavailable
from eunoe.schemas.ports import ColdStore
from eunoe.workers.stores.cold import snapshot_files
from eunoe.workers.stores.cold import stores as cold_stores
from eunoe.workers.stores.cold.file_reading import read_first
from eunoe.workers.stores.cold.mark import ColdMark
from eunoe.workers.stores.cold.snapshot_files import SnapshotFiles
from eunoe.workers.stores.cold.stores import FolderColdStore, ObjectColdStore, cold_store
from eunoe.workers.stores.redis.connection import RedisConnection
from eunoe.workers.stores.redis.keys import Keys
from tests.support.disk import synced
from tests.support.memory.cold_store import MemoryColdStore

MOST = 10_000_000
"""Bytes, more than any file of the tests has."""


@pytest.fixture(params=["memory", "folder", "obstore memory", "obstore folder"])
def cold(request: pytest.FixtureRequest, tmp_path: Path) -> ColdStore:
    match request.param:
        case "memory":
            return MemoryColdStore()
        case "folder":
            return FolderColdStore(tmp_path)
        case "obstore memory":
            return ObjectColdStore(ObstoreMemory(), "memory")
        case _:
            return ObjectColdStore(LocalStore(tmp_path), "folder")


async def test_files_are_kept_as_they_are(cold: ColdStore) -> None:
    data = bytes(range(256)) * 5_000
    assert await cold.get("a/b/c", MOST) is None
    await cold.put("a/b/c", data)
    await cold.put("a/b/d", b"")
    assert (await cold.get("a/b/c", MOST), await cold.get("a/b/d", MOST)) == (data, b"")
    await cold.put("a/b/c", b"new")
    assert await cold.get("a/b/c", MOST) == b"new"


async def test_files_are_listed_by_folder_and_deleted(cold: ColdStore) -> None:
    for name in ("a/v1/x/1", "a/v1/y/2", "a/v10/z/3", "b/v1/x/4"):
        await cold.put(name, b"")
    assert await cold.names("a/v1") == ["a/v1/x/1", "a/v1/y/2"]
    assert await cold.names("a") == ["a/v1/x/1", "a/v1/y/2", "a/v10/z/3"]
    assert await cold.names("none") == []
    await cold.remove(["a/v1/x/1", "a/v1/none", "a/v10/z/3"])
    await cold.remove([])
    assert await cold.names("a") == ["a/v1/y/2"]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//b", "", "a b", "ä"])
async def test_names_that_lead_elsewhere_are_refused(cold: ColdStore, name: str) -> None:
    for asked in (cold.put(name, b""), cold.get(name, MOST), cold.names(name), cold.remove([name])):
        with pytest.raises(ValueError, match="is no name of a file"):
            await asked


async def test_many_at_once(cold: ColdStore) -> None:
    await asyncio.gather(*(cold.put(f"a/{number % 5}/{number}", bytes([number])) for number in range(50)))
    assert [await cold.get(f"a/{number % 5}/{number}", MOST) for number in range(50)] == [bytes([n]) for n in range(50)]


async def test_a_folder_that_is_away_is_told_and_not_made(tmp_path: Path) -> None:
    missing = FolderColdStore(tmp_path / "unmounted")
    with pytest.raises(Unavailable, match="mount it, or make it"):
        await missing.put("a/b", b"")
    assert not (tmp_path / "unmounted").exists()
    with pytest.raises(Unavailable, match="mount it, or make it"):
        await missing.get("a/b", MOST)
    with pytest.raises(Unavailable, match="mount it, or make it"):
        await missing.names("a")
    with pytest.raises(Unavailable, match="mount it, or make it"):
        await missing.remove(["a/b"])


async def test_a_deletion_is_on_disk_when_it_is_said_to_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderColdStore(tmp_path)
    for name in ("v1/x/1", "v1/y/2", "v1/y/3"):
        await store.put(name, b"")
    paths = synced(monkeypatch)
    await store.remove(["v1/x/1", "v1/y/2", "v1/y/none"])
    assert paths == [tmp_path / "v1", tmp_path / "v1" / "y", tmp_path / "v1" / "y"]
    assert await store.names("v1") == ["v1/y/3"]


async def test_no_more_is_read_of_a_file_than_was_asked_for(cold: ColdStore) -> None:
    await cold.put("a/b", b"snapshot, and what has taken its place")
    assert await cold.get("a/b", 8) == b"snapshot"


async def test_a_huge_file_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "b").open("wb") as file:
        file.truncate(2**40)
    assert await FolderColdStore(tmp_path).get("b", 9) == bytes(9)


async def test_what_is_no_file_is_none_and_holds_no_thread(tmp_path: Path) -> None:
    store = FolderColdStore(tmp_path, timeout_s=5.0)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    assert [await store.get(name, MOST) for name in ("pipe", "folder", "file/below")] == [None] * 3


async def test_what_took_the_place_of_a_file_is_listed_so_that_it_is_deleted(tmp_path: Path) -> None:
    store, elsewhere = FolderColdStore(tmp_path / "store"), tmp_path / "elsewhere"
    store.root.mkdir()
    elsewhere.mkdir()
    await store.put("a/file", b"x")
    os.mkfifo(store.root / "a" / "pipe")
    (store.root / "a" / "link").symlink_to("nowhere")
    (store.root / "a" / "other").symlink_to(elsewhere)
    assert await store.names("a") == ["a/file", "a/link", "a/other", "a/pipe"]
    await store.remove(await store.names("a"))
    assert (list(store.root.iterdir()), elsewhere.is_dir()) == ([], True)


async def test_a_file_that_cannot_be_opened_is_told_from_a_store_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to("b")
    with pytest.raises(FileUnreadable, match="/b: Too many levels of symbolic links"):
        await FolderColdStore(tmp_path).get("b", MOST)


async def test_a_folder_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def hangs(path: Path, most: int) -> bytes | None:
        if path.name == "b":
            let_go.wait()
        return read_first(path, most)

    monkeypatch.setattr(cold_stores, "read_first", hangs)
    store = FolderColdStore(tmp_path, timeout_s=0.2)
    with pytest.raises(Unavailable, match=r"no answer for 0\.2 s"):
        await store.get("a/b", MOST)
    others = FolderColdStore(tmp_path)  # they go on; a busy disk may take longer
    await others.put("a/c", b"x")
    assert await others.get("a/c", MOST) == b"x"
    let_go.set()


@pytest.mark.parametrize("slow", ["_check_there", "replace"])
async def test_a_write_that_was_given_up_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    store, drive, ended = FolderColdStore(tmp_path, timeout_s=0.2), threading.Event(), threading.Event()
    put = FolderColdStore._put

    def noted(*words: Any) -> None:
        put(*words)
        ended.set()

    monkeypatch.setattr(FolderColdStore, "_put", noted)
    with monkeypatch.context() as patch:
        hang(patch, Path if slow == "replace" else FolderColdStore, slow, drive)
        with pytest.raises(Unavailable, match=r"no answer for 0\.2 s"):
            await store.put("a/b", b"x")
        drive.set()
        assert await asyncio.to_thread(ended.wait, 10)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    await FolderColdStore(tmp_path).put("a/b", b"y")
    assert await FolderColdStore(tmp_path).get("a/b", MOST) == b"y"


async def test_a_write_that_was_given_up_leaves_no_file_where_its_folder_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, drive, ended = FolderColdStore(tmp_path, timeout_s=1.0), threading.Event(), threading.Event()
    put = FolderColdStore._put

    def noted(*words: Any) -> None:
        try:
            put(*words)
        finally:
            ended.set()

    def failing(_: Path) -> None:
        drive.wait(10)
        raise OSError("the drive is gone")

    monkeypatch.setattr(FolderColdStore, "_put", noted)
    monkeypatch.setattr(cold_stores, "_sync_folder", failing)
    with pytest.raises(Unavailable, match="no answer for 1 s"):
        await store.put("a/b", b"x")
    assert (tmp_path / "a" / "b").exists()
    drive.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


class OneKey:
    """Redis, as far as the mark of a cold store needs it."""

    def __init__(self, value: str | None) -> None:
        self.value = value

    async def command(self, name: str, _key: str, value: str = "", *options: str) -> str | None:
        if name == "SET" and not (options and self.value):
            self.value = value
        return self.value


@pytest.mark.parametrize("slow", [(Path, "replace"), (cold_stores, "_sync_folder")], ids=["replace", "sync"])
@pytest.mark.parametrize("known", [None, "abc"], ids=["first", "adopted"])
async def test_a_mark_outlives_the_late_end_of_an_earlier_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: tuple[Any, str], known: str | None
) -> None:
    store, drive, ended = FolderColdStore(tmp_path), threading.Event(), threading.Event()
    mark, put = ColdMark(cast("RedisConnection", OneKey(known)), Keys(), store), FolderColdStore._put
    # only where the folder hangs: a busy disk may take longer
    hurried = replace(mark, store=replace(store, timeout_s=0.2))

    def noted(*words: Any) -> None:
        put(*words)
        ended.set()

    with monkeypatch.context() as patch:
        patch.setattr(FolderColdStore, "_put", noted)
        hang(patch, *slow, drive)
        with pytest.raises(Unavailable, match=r"no answer for 0\.2 s"):
            await hurried.adopt()
    await mark.adopt()
    await mark.check()
    drive.set()
    assert await asyncio.to_thread(ended.wait, 10)
    await mark.check()
    await mark.ensure()
    assert len(await store.names("eunoe")) == 1


async def test_a_write_that_is_done_as_its_time_ends_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, drive, ended = FolderColdStore(tmp_path, timeout_s=1.0), threading.Event(), threading.Event()
    put = FolderColdStore._put

    def late(*words: Any) -> None:
        put(*words)
        ended.set()
        drive.wait(10)

    monkeypatch.setattr(FolderColdStore, "_put", late)
    await store.put("a/b", b"x")
    assert ended.is_set()
    drive.set()
    assert await store.get("a/b", MOST) == b"x"


async def test_a_write_that_is_cancelled_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, drive, ended = FolderColdStore(tmp_path), threading.Event(), threading.Event()
    put = FolderColdStore._put

    def noted(*words: Any) -> None:
        drive.wait(10)
        put(*words)
        ended.set()

    monkeypatch.setattr(FolderColdStore, "_put", noted)
    writing = asyncio.create_task(store.put("a/b", b"x"))
    await asyncio.sleep(0.1)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    drive.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def hang(patch: pytest.MonkeyPatch, owner: object, name: str, drive: threading.Event) -> None:
    """Let a method wait for the drive."""
    method = getattr(owner, name)

    def waiting(*words: Any) -> Any:
        drive.wait(10)
        return method(*words)

    patch.setattr(owner, name, waiting)


async def test_what_was_left_half_written_is_listed_so_that_it_is_deleted(tmp_path: Path) -> None:
    store = FolderColdStore(tmp_path)
    await store.put("a/b", b"x")
    (tmp_path / "a" / "b.partfeed").write_bytes(b"half")
    assert await store.names("a") == ["a/b", "a/b.partfeed"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0
    await store.remove(await store.names("a"))
    assert not (tmp_path / "a").exists()


def bucket_at(port: int, monkeypatch: pytest.MonkeyPatch) -> ColdStore:
    """A folder of a bucket at a server of object storage on this port."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    return cold_store("s3://bucket/folder")


async def test_an_object_store_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = bucket_at(free_port(), monkeypatch)
    with pytest.raises(Unavailable, match="the cold store s3://bucket/folder: ") as told:
        await store.get("a/b", MOST)
    assert "hunter2" not in str(told.value)


@asynccontextmanager
async def answering(answers: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ColdStore]:
    """A bucket whose server answers with the line of HTTP and the headers that ``answers`` gives for a path."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        writer.write(
            f"HTTP/1.1 {answers(path)}\r\nContent-Length: 12\r\nConnection: close\r\n\r\nNoSuchBucket".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield bucket_at(server.sockets[0].getsockname()[1], monkeypatch)


async def test_a_bucket_that_does_not_exist_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(lambda _: "404 Not Found", monkeypatch) as store:
        mark = ColdMark(cast("RedisConnection", OneKey(None)), Keys(), store)
        assert await store.get("a/b", MOST) is None
        await store.remove(["a/b"])
        for asked in (store.put("a/b", b"x"), mark.ensure(), mark.adopt()):
            with pytest.raises(Unavailable, match=r"s3://bucket/folder: .*see whether its bucket exists"):
                await asked
        with pytest.raises(Unavailable, match="s3://bucket/folder: "):
            await store.names("a")


NOWHERE = "Location: http://127.0.0.1:1/"


@pytest.mark.parametrize("refusal", ["403 Forbidden", f"301 Moved Permanently\r\n{NOWHERE}", "400 Bad Request"])
async def test_an_object_that_alone_is_refused_is_lost_after_a_while(
    monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def answers(path: str) -> str:
        return refusal if path.endswith("/a") or keyless else "200 OK"

    monkeypatch.setattr(snapshot_files, "UNREADABLE_S", 0.0)
    keyless = True
    async with answering(answers, monkeypatch) as store:
        mark, files = ColdMark(cast("RedisConnection", OneKey("abc")), Keys(), store), SnapshotFiles()
        with pytest.raises(Unavailable, match="the cold store s3://bucket/folder: ") as met:
            await files.read(mark, "c/a", 1)
        assert not isinstance(met.value, SnapshotLost), "the login has expired: all of the store is refused"
        keyless = False
        with pytest.raises(SnapshotLost, match=r"it cannot be read: the cold store s3://bucket/folder: "):
            await files.read(mark, "c/a", 1)
        assert await files.read(mark, "c/b", 1) == b"No"


@pytest.mark.parametrize("address", ["nonsense://x/y", "s3://", "memory:///", "MEMORY://x", "file:///tmp"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with pytest.raises(Refused, match=r"EUNOE_COLD__STORE=.*is no object store"):
        cold_store(address)


class WithoutKey:
    """A store of obstore that no key was set for: it asks the machine for a login, which has none."""

    async def get_async(self, name: str) -> None:
        raise GenericError(f"Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token for {name}")


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("s3://bucket/folder", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("az://container/folder", "set a login by the variables of the store's own tools"),
    ],
)
async def test_a_store_without_a_key_is_told_which_settings_to_make(where: str, wanted: str) -> None:
    with pytest.raises(Unavailable, match=wanted):
        await ObjectColdStore(WithoutKey(), where).get("some/name", MOST)
