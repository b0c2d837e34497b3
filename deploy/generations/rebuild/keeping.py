"""The folder of a rebuild's files: kept when the rebuild is interrupted, and found again by its generation."""

import fcntl
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from os import fstat, getuid
from os.path import samestat
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from typing import IO, Final

from eunoe.deploy.local.lock import try_lock
from eunoe.schemas.base import write_time
from eunoe.schemas.errors import Refused, Unavailable
from eunoe.streams.topics import TopicNames
from eunoe.workers.stores.records.generations import Generation

MAX_AGE_S: Final = 7 * 86_400.0
"""Seconds after which a folder that nobody uses is removed by the next rebuild on this machine."""
_LOCK: Final = "lock"
_PREFIXES: Final = ("eunoe-rebuild-", "eunoe-estimate-")


def max_age_s(names: TopicNames) -> float:
    """`MAX_AGE_S`; with a sealed log no longer than `conversations` keeps what clients wrote, which is plain."""
    return MAX_AGE_S if names.door_ms is None else min(MAX_AGE_S, names.door_ms / 1000)


def folder_of(prefix: str, generation: Generation) -> Path:
    """The folder of a generation that a rebuild began; another one of that name has another folder."""
    begun = f"{prefix}\n{generation.name}\n{write_time(generation.made_at)}"
    return Path(tempfile.gettempdir()) / f"{_PREFIXES[0]}{sha256(begun.encode()).hexdigest()[:24]}"


@contextmanager
def kept_folder(prefix: str, generation: Generation, oldest_s: float) -> Iterator[Path]:
    """The folder of a generation, for the owner's eyes only; removed at the end, and kept where the body raises.

    What was begun over ``oldest_s`` seconds ago and is not in use is removed first, of other generations too. Raises
    `Refused` where another process uses the folder, or it is not as this module makes it, `Unavailable` where the body
    finds no room in it, or damaged files.
    """
    folder = folder_of(prefix, generation)
    _sweep(oldest_s, folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_own(folder)
    lock = _locked(folder)
    if lock is None:
        raise Refused(f"another process is rebuilding {generation.name} on this machine: wait for its end, or stop it")
    with lock, telling_file_faults(folder):
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def telling_file_faults(folder: Path) -> Iterator[None]:
    """Raise `Unavailable`, with what to do, where the body cannot write a file of a rebuild in ``folder``.

    A file that a power failure damaged is another fault: it stays so until it is removed.
    """
    try:
        yield
    except sqlite3.OperationalError as fault:
        said = f"the files of the rebuild in {folder} cannot be written: {fault}"
        raise Unavailable(f"{said}; make room there, or name another folder in TMPDIR, and run it again") from fault
    except sqlite3.DatabaseError as fault:
        if type(fault) is not sqlite3.DatabaseError:  # the others are faults of a statement
            raise
        said = f"the files of the rebuild in {folder} are damaged: {fault}"
        raise Unavailable(f"{said}; remove that folder and run it again, which reads the log from its begin") from fault


def remove_folder(prefix: str, generation: Generation) -> None:
    """Remove the folder of a generation, if there is one; raises `Refused` where a process uses it."""
    folder = folder_of(prefix, generation)
    if folder.is_dir() and not folder.is_symlink():
        with _locked(folder) or _in_use(generation):
            shutil.rmtree(folder, ignore_errors=True)


def _in_use(generation: Generation) -> IO[str]:
    raise Refused(f"{generation.name} is being rebuilt on this machine: stop that first")


def _locked(folder: Path) -> IO[str] | None:
    """The lock of a folder, held until it is closed or the process ends.

    `None` where another process holds it, or has just removed the folder: a lock of a file that is gone locks nothing.
    """
    path = folder / _LOCK
    with suppress(FileNotFoundError), ExitStack() as closing:
        lock = closing.enter_context(path.open("a"))
        if try_lock(lock.fileno(), fcntl.LOCK_EX, path) and samestat(fstat(lock.fileno()), path.stat()):
            closing.pop_all()
            return lock
    return None


def _check_own(folder: Path) -> None:
    """Raise `Refused` for what somebody else put there: the folder for temporary files is everybody's."""
    found = folder.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != getuid() or S_IMODE(found.st_mode) & 0o077:
        raise Refused(f"{folder} is not a folder of this user alone: remove it")


def _age_s(folder: Path) -> float:
    """Seconds since the folder was begun; of one without a lock, since something was added or removed."""
    begun = folder / _LOCK
    return time.time() - (begun if begun.exists() else folder).stat().st_mtime


def _sweep(oldest_s: float, parent: Path) -> None:
    for prefix in _PREFIXES:
        for folder in parent.glob(f"{prefix}*"):
            with suppress(OSError, Refused):
                _check_own(folder)
                if _age_s(folder) <= oldest_s:
                    continue
                if (lock := _locked(folder)) is not None:
                    with lock:
                        shutil.rmtree(folder, ignore_errors=True)
