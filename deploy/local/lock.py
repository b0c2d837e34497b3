"""One owner of a directory at a time; the lock goes with its process, however that ends."""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from eunoe.schemas.errors import Refused

_TRIES = 20
_PAUSE_SECONDS = 0.05


class DirectoryLock:
    """An advisory lock on ``<directory>/lock``, which also tells the owner's process id.

    The file stays when the lock goes: removing it would let two owners hold two files of one name.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `Refused` with the process id of the owner.

        Tries for a second: an owner that was just killed may not be quite gone, and `is_held` takes a short look.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        tries = _TRIES
        while not _try_lock(file, fcntl.LOCK_EX):
            tries -= 1
            if tries:
                time.sleep(_PAUSE_SECONDS)
                continue
            owner = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise Refused(
                f"{self._path.parent} is in use by process {owner}; stop that process, or choose another directory"
            )
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file

    def release(self) -> None:
        """Give the lock back; nothing happens where it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def is_held(self) -> bool:
        """True: some process owns the directory."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        free = _try_lock(file, fcntl.LOCK_SH)
        os.close(file)
        return not free

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
