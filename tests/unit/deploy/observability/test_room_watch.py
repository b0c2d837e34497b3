"""A disk that is nearly full: told once where it begins, and once where it ends."""

from pathlib import Path

import pytest

from eunoe.deploy.local.room import LEAST_FREE_BYTES, lacking_room, taken_by
from eunoe.deploy.observability.room_watch import RoomWatch
from tests.support.disk import left_on_disk


async def test_too_little_room_is_told_once_and_its_end_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = RoomWatch(tmp_path)
    for free in (LEAST_FREE_BYTES, LEAST_FREE_BYTES - 1, 0, LEAST_FREE_BYTES):
        with left_on_disk(free):
            await watch.look()
    assert caplog.messages == [
        f"memory is not written: the disk of {tmp_path} has 31 MiB left, less than 32: make room there",
        "there is room again: memory is written",
    ]


def test_the_holes_of_a_file_take_no_room(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(64 << 20)
    assert taken_by(tmp_path) < 1 << 20


def test_a_directory_that_is_gone_is_on_the_disk_of_the_one_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for gone in (tmp_path / "qdrant" / "collections", Path("qdrant")):
        assert lacking_room(gone) is None
        assert lacking_room(gone, 1 << 60) is not None
