"""Reads a file that anything may have taken the place of."""

import os
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from typing import Final

from eunoe.schemas.errors import FileUnreadable

_AT_ONCE: Final = 2**20
"""Bytes that are read at once."""


def read_first(path: Path, most: int) -> bytes | None:
    """The first bytes of a file, at most ``most``; `None` where there is no file, also where there is a folder or pipe.

    Raises `FileUnreadable`.
    """
    try:
        place = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for who writes into it
        with os.fdopen(place, "rb", buffering=0) as file:
            return _first(file, most) if S_ISREG(os.fstat(place).st_mode) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as fault:
        raise FileUnreadable(f"{path}: {fault.strerror or fault}", "a file of the cold store") from fault


def _first(file: FileIO, most: int) -> bytes:
    found = bytearray()
    while len(found) < most and (more := file.read(min(most - len(found), _AT_ONCE))):
        found += more
    return bytes(found)
