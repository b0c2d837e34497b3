"""Room on the disk of a data directory, below which a server that maps files must not write.

A page of a mapped file that the disk has no room for is not refused: the kernel ends the process by SIGBUS.
"""

import shutil
from pathlib import Path
from typing import Final

LEAST_FREE_BYTES: Final = 32 << 20
"""The most that an update of a vector index may need, with what others take of the disk meanwhile."""


def lacking_room(directory: Path, more: int = 0) -> str | None:
    """The words for what the disk of ``directory`` lacks to take ``more`` bytes and go on; `None` where it has room.

    A directory that is not there yet, or not any more, is taken to be on the disk of the one around it.
    """
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free, needed = shutil.disk_usage(there).free, LEAST_FREE_BYTES + more
    if free >= needed:
        return None
    return f"the disk of {directory} has {free >> 20} MiB left, less than {needed >> 20}: make room there"


def taken_by(directory: Path) -> int:
    """Bytes that the files below ``directory`` take of its disk, without their holes."""
    return sum(path.lstat().st_blocks for path in directory.rglob("*")) * 512
