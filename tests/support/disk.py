"""A disk that takes no more, and what a process brings to its disk."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond that many bytes, as on a full disk: of a longer write a part is taken."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that this process brings to the disk from now on, by the names they have then."""
    paths: list[Path] = []
    fsync = os.fsync

    def noting(file: int) -> None:
        paths.append(Path(f"/proc/self/fd/{file}").readlink())
        fsync(file)

    monkeypatch.setattr(os, "fsync", noting)
    return paths


@contextmanager
def left_on_disk(size: int) -> Iterator[None]:
    """Every disk has that many bytes left, as `shutil.disk_usage` tells it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=size))
        yield
