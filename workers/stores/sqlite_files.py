"""Files of SQLite that their owner alone reads."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Final

_MAKING: Final = threading.Lock()
_OWNER: Final = 0o600
_PRAGMAS: Final = ("secure_delete = ON", "journal_mode = DELETE", "synchronous = EXTRA", "temp_store = MEMORY")
"""Settings of each connection: what is deleted is overwritten; a power failure brings no journal back (EXTRA)."""


def connect(path: Path, busy_s: float, *, transactions: bool) -> sqlite3.Connection:
    """A connection to a file whose changes are on disk when they are committed; it waits ``busy_s`` for the others.

    ``transactions``: whether the module begins one by itself before a change. Raises ``sqlite3.Error``.
    """
    file = sqlite3.connect(path, timeout=busy_s, isolation_level="DEFERRED" if transactions else None)
    try:
        for pragma in _PRAGMAS:
            file.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        file.close()
        raise
    return file


def private_file(path: Path) -> os.stat_result:
    """Make an empty file with its directory where there is none, and let only its owner read and write it.

    A file that is there is never opened: who closes any descriptor of a file gives up all locks that its process holds
    on it (POSIX), also those of another connection's transaction, which other processes would then undo. So one thread
    at a time makes a file. Returns what the system says of the file; raises ``OSError``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _MAKING:
        if not path.exists():
            _make(path)
    found = path.stat()
    if found.st_mode & 0o777 != _OWNER:
        path.chmod(_OWNER)
    return found


def _make(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER))
    except FileExistsError:  # another process was first
        return
