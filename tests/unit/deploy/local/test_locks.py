"""Locks of files on a file system that has none, as some mounts of a network."""

import errno
import fcntl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eunoe.deploy.generations.rebuild.keeping import kept_folder
from eunoe.deploy.local.lock import DirectoryLock
from eunoe.deploy.local.ports import PortReservations
from eunoe.workers.stores.records.generations import Generation, GenerationState


@pytest.fixture(autouse=True)
def no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    for name in ("flock", "lockf"):
        monkeypatch.setattr(fcntl, name, refusing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_directory_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be locked: No locks available") as caught:
        DirectoryLock(tmp_path).acquire()
    assert caught.value.filename == str(tmp_path / "lock")


def test_a_folder_of_a_rebuild_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    made = Generation(name="v2", state=GenerationState.BUILDING, made_at=datetime.now(UTC), source="v1")
    with pytest.raises(OSError, match="cannot be locked: No locks available") as caught, kept_folder("p", made, 60.0):
        pass
    assert Path(str(caught.value.filename)).parent.parent == tmp_path


def test_a_port_is_free_where_none_can_be_reserved(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No locks available"):
        PortReservations(tmp_path / "ports").reserve(20_000)
