"""A lock on a directory, which ends with its process, however that ends."""

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
    """An advisory lock on ``<directory>/lock``; the file has the process id of the owner.

    The file stays after a release. Removing it would let two owners lock two files of the same name.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock; raises `Refused` with the process id of the owner.

        It tries for a second, because a killed owner may still be ending, and `is_held` holds the lock for an instant.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(file)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _lock(self, file: int) -> None:
        tries = _TRIES
        while not try_lock(file, fcntl.LOCK_EX, self._path):
            tries -= 1
            if tries:
                time.sleep(_PAUSE_SECONDS)
                continue
            owner = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            raise Refused(
                f"{self._path.parent} is in use by process {owner}; stop that process, or choose another directory"
            )
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())

    def release(self) -> None:
        """Release the lock; does nothing where it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def is_held(self) -> bool:
        """Whether some process owns the directory."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not try_lock(file, fcntl.LOCK_SH, self._path)
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def try_lock(file: int, kind: int, path: Path) -> bool:
    """Whether the open file ``path`` is now locked, as ``kind`` says (`fcntl.LOCK_EX` or `fcntl.LOCK_SH`), at once.

    Raises ``OSError``, which names the file, where its file system has no locks.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as fault:
        raise OSError(fault.errno, f"cannot be locked: {fault.strerror}", str(path)) from fault
    return True
