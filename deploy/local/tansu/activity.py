"""The embedded broker's own report that it takes records, from which idle consumers learn that there are new ones.

The broker (Tansu 0.6.0) traces each produce request on its standard output. The output goes through a pipe whose
writer never blocks: lines that find it full are lost, and the broker goes on. Those about produce requests are counted
as activity and dropped, all others are written to the log. The report is a hint: without it the broker is polled.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from eunoe.deploy.local.log_file import LogFile

TRACE_TARGET: Final = "tansu_storage::service::produce"
"""The module of the broker that takes records."""
TRACING: Final[Mapping[str, str]] = {"RUST_LOG": f"error,{TRACE_TARGET}=info", "NO_COLOR": "1"}
"""The environment in which the broker reports produce requests, and faults; no contents of records."""
_MARK: Final = TRACE_TARGET.encode()
_CHUNK_BYTES: Final = 1 << 16


class BrokerOutput:
    """A pipe for the standard output of the broker, read in the event loop; the process gets its `writer`."""

    def __init__(self, log: LogFile, report: Callable[[], None]) -> None:
        """``report`` is called once for each piece of output with produce requests; ``log`` is closed at the end."""
        self._log = log
        self._report = report
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._begun = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._read)

    def detach(self) -> None:
        """Close the writer here: the process has it."""
        os.close(self.writer)

    def close(self) -> None:
        """Take what is left, and stop."""
        self._loop.remove_reader(self._reader)
        with contextlib.suppress(BlockingIOError):
            while self._take():
                pass
        self._log.write([self._begun])
        self._log.close()
        os.close(self._reader)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if not self._take():
                self._loop.remove_reader(self._reader)

    def _take(self) -> bool:
        """Read once; returns whether the pipe is still open, raises ``BlockingIOError`` where it is empty."""
        found = os.read(self._reader, _CHUNK_BYTES)
        *lines, self._begun = (self._begun + found).split(b"\n")
        others = [line + b"\n" for line in lines if _MARK not in line]
        if others:
            self._log.write(others)
        if len(others) < len(lines):
            self._report()
        return bool(found)
