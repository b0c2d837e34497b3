"""Free ports of the loopback address: none is given twice, in this process or in another one of this user."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from eunoe.schemas.errors import Refused

HOST = "127.0.0.1"
_PORTS = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections: none of those takes a port that was just chosen."""


class PortReservations:
    """Ports reserved for as long as this process lives, by record locks on one file that the processes share.

    A record lock is held by a process, one byte for each port, and goes with it, even when it is killed.
    """

    def __init__(self, path: Path) -> None:
        """``path``: the file that the processes share; it is made where it is missing."""
        self._path = path
        self._file = -1
        self._owner = 0
        self._reserved: set[int] = set()

    def reserve(self, port: int) -> bool:
        """Whether ``port`` is now reserved for this process and was not before.

        Raises `OSError` without the file, and where its file system has no locks.
        """
        file = self._descriptor()
        if port in self._reserved:
            return False
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except (BlockingIOError, PermissionError):  # either says that another process has it
            return False
        self._reserved.add(port)
        return True

    def _descriptor(self) -> int:
        """The file, opened by this process and never closed: a fork has none of its parent's locks."""
        if self._owner != os.getpid():
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            self._owner = os.getpid()
            self._reserved = set()
        return self._file


_reservations = PortReservations(Path(tempfile.gettempdir()) / f"eunoe-ports-{os.getuid()}")


def free_port() -> int:
    """A port that nobody listens on, reserved for this process; raises `Refused` where all are taken.

    Processes of other users may still take it before its server does: see `PortTaken`.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if bind_error(port) is None and _reserve(port):
            return port
    raise Refused(f"no free port between {_PORTS.start} and {_PORTS.stop} on {HOST}")


def bind_error(port: int) -> OSError | None:
    """Why no server can listen on ``port`` now; `None` where one can."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            return error
    return None


def _reserve(port: int) -> bool:
    with contextlib.suppress(OSError):  # no file or no lock can be made there: then a port is only free, not reserved
        return _reservations.reserve(port)
    return True
