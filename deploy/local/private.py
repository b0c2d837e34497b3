"""Files and directories of the data directory: nobody but their owner reads them."""

import contextlib
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Literal

from eunoe.schemas.errors import Refused

_FILE: Final = 0o600
_DIRECTORY: Final = 0o700
_OTHERS: Final = 0o077
_OWN_FOLDERS: Final = ("journal", "logs", "valkey", "qdrant", "erasures", "keys")
"""The folders of a data directory; it may have others, which are not eunoe's."""


def make_private(directory: Path) -> None:
    """Create a data directory that its owner alone reads, with all that earlier starts left in it.

    Raises `Refused` for the directory of another user.
    """
    directory.mkdir(mode=_DIRECTORY, parents=True, exist_ok=True)
    try:
        directory.chmod(_DIRECTORY)
    except PermissionError:
        raise Refused(f"{directory} belongs to another user: choose a data directory of your own") from None
    for folder in _OWN_FOLDERS:
        _close_to_others(directory / folder)
        for parent, folders, files in os.walk(directory / folder):
            for name in (*folders, *files):
                _close_to_others(Path(parent, name))


def _close_to_others(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def open_private(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file to write, which its owner alone reads."""
    return io.BufferedWriter(open_unbuffered(path, mode))


def open_unbuffered(path: Path, mode: Literal["wb", "ab"]) -> io.FileIO:
    """The same file without a buffer: each write goes to the operating system, which may take a part of it."""
    kind = os.O_TRUNC if mode == "wb" else os.O_APPEND
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | kind, _FILE), mode)


def append_whole(file: io.FileIO, lines: bytes) -> None:
    """Append all of the bytes, or none where it raises ``OSError``: what follows half a line would be a part of it.

    ``file`` is one of `open_unbuffered` that this process alone writes.
    """
    begin, left = os.fstat(file.fileno()).st_size, memoryview(lines)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        file.truncate(begin)
        raise
