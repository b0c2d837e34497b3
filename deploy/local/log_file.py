"""The log of a child process, which its parent writes."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from eunoe.deploy.local.private import append_whole, open_unbuffered


class LogFile:
    """A file that lines are appended to at once; its owner alone reads it.

    What the disk does not take is left out, and counted in the next line that it takes: a log is not worth the end of
    the process that writes it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it; raises ``OSError``."""
        self._file = open_unbuffered(path, "ab")
        self._left_out = 0

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, each with its end."""
        told = [b"(%d lines left out: the disk did not take them)\n" % self._left_out] if self._left_out else []
        try:
            append_whole(self._file, b"".join([*told, *lines]))
        except OSError:
            self._left_out += len(lines)
        else:
            self._left_out = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
