"""Collections of the embedded Qdrant that a power failure or a full disk left damaged."""

import errno
from pathlib import Path

import pytest
import qdrant_edge as edge

from eunoe.deploy.local.qdrant.collection import Collections
from eunoe.deploy.local.qdrant.errors import RequestError
from eunoe.deploy.local.room import LEAST_FREE_BYTES
from eunoe.schemas.errors import Refused
from tests.support.disk import left_on_disk, synced

SPEC = b'{"vectors":{"size":2,"distance":"Cosine"}}'


async def made(directory: Path) -> None:
    """Collections ``a`` and ``b`` on disk, one point in each."""
    collections = opened(directory)
    for name in ("a", "b"):
        await collections.create(name, SPEC)
        collections.get(name).update(
            edge.UpdateOperation.upsert_points([edge.Point(id=1, vector=[1.0, 0.0], payload={"of": name})])
        )
    collections.close()


def opened(directory: Path, *, replaceable: bool = False) -> Collections:
    collections = Collections(directory, replaceable=replaceable)
    collections.load()
    return collections


def count(collections: Collections, name: str) -> int:
    return int(collections.get(name).shard.count(edge.CountRequest(exact=True)))


@pytest.mark.parametrize("damaged", ["collection.json", "shard/edge_config.json"])
async def test_a_damaged_collection_is_named_and_goes_where_all_is_written_again(tmp_path: Path, damaged: str) -> None:
    await made(tmp_path)
    (tmp_path / "a" / damaged).write_bytes(b"")
    with pytest.raises(Refused, match=r"the collection a cannot be opened: .*remove .*/a, .* `eunoe reindex`"):
        opened(tmp_path)
    collections = opened(tmp_path, replaceable=True)
    assert (collections.names(), count(collections, "b")) == (["b"], 1)
    await collections.create("a", SPEC)
    assert count(collections, "a") == 0
    collections.close()


async def test_a_specification_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = synced(monkeypatch)
    await made(tmp_path)
    assert paths == [path for name in "ab" for path in (tmp_path / name / "collection.json.draft", tmp_path / name)]


async def test_a_rewrite_that_fails_leaves_the_old_points_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(tmp_path)
    collections = opened(tmp_path)

    def failing(path: Path, target: Path) -> Path:
        if path.name == "shard.new":
            raise OSError(errno.EIO, "Input/output error")
        return renamed(path, target)

    renamed = Path.rename
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", failing)
        with pytest.raises(OSError, match="Input/output"):
            await collections.rewrite("a")
    assert (count(collections, "a"), await collections.rewrite("a"), count(collections, "a")) == (1, 1, 1)
    collections.close()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["collection.json", "shard"]


async def test_a_nearly_full_disk_refuses_what_writes_and_keeps_the_server_alive(tmp_path: Path) -> None:
    await made(tmp_path)
    collections = opened(tmp_path)
    collection = collections.get("a")
    point = edge.UpdateOperation.upsert_points([edge.Point(id=2, vector=[0.0, 1.0])])
    with left_on_disk(LEAST_FREE_BYTES - 1):
        with pytest.raises(RequestError, match=r"No space left on device: .* make room there") as caught:
            collection.update(point)
        with pytest.raises(RequestError, match="No space left"):
            await collections.create("c", SPEC)
        assert (caught.value.status, count(collections, "a")) == (507, 1)
    with left_on_disk(LEAST_FREE_BYTES), pytest.raises(RequestError, match="No space left"):
        await collections.rewrite("a")  # a copy needs more
    collection.update(point)
    assert (count(collections, "a"), await collections.rewrite("a")) == (2, 2)
    collections.close()


async def test_segments_are_not_written_to_a_nearly_full_disk_and_later_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await made(tmp_path)
    collections = opened(tmp_path)
    collections.get("a").update(edge.UpdateOperation.upsert_points([edge.Point(id=2, vector=[0.0, 1.0])]))
    for free in (0, LEAST_FREE_BYTES):
        with left_on_disk(free):
            await collections.flush()
    (told,) = caplog.messages
    assert told.startswith("flush of collection a waits: No space left on device")
    collections.close()
