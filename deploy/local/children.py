"""Child processes that end with their parent, even when the parent is killed.

The module is also run as a script, isolated and without site packages, so that it starts fast:
``children.py run PARENT COMMAND…`` becomes COMMAND, bound to the process PARENT;
``children.py sweep DIRECTORY`` waits for the end of its standard input, then removes DIRECTORY.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_SET_PARENT_DEATH_SIGNAL = 1
_POLL_SECONDS = 0.2
_ORPHANED = 1


def dies_with_parent(command: Sequence[str]) -> list[str]:
    """The command line for a child process that is killed (SIGKILL) when this process ends.

    The child gets a session of its own: Ctrl-C at the terminal reaches the parent alone, which then stops its
    children in order. On Linux the kernel kills the child, and the started process is ``command`` itself. There the
    child is bound to the *thread* that started it, so start children from the thread of the event loop. On other
    systems a small process stays between the two and watches the parent.
    """
    return [*_script(), "run", str(os.getpid()), *command]


def sweeps(directory: Path) -> list[str]:
    """The command line of a process that removes ``directory`` when its standard input ends, as at its parent's end."""
    return [*_script(), "sweep", str(directory)]


def _script() -> list[str]:
    return [sys.executable, "-I", "-S", __file__]


def _run(parent: int, command: Sequence[str]) -> int:
    os.umask(0o077)  # data and logs are for their owner alone
    with contextlib.suppress(PermissionError):
        os.setsid()
    if sys.platform != "linux":
        return _watch_parent(parent, command)
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        return _watch_parent(parent, command)
    if os.getppid() != parent:
        return _ORPHANED
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - the command line comes from our own code
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127


def _watch_parent(parent: int, command: Sequence[str]) -> int:
    with subprocess.Popen(command) as child:  # noqa: S603 - the command line comes from our own code

        def forward(number: int, _: FrameType | None) -> None:
            child.send_signal(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, forward)
        while os.getppid() == parent:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(_POLL_SECONDS)
        child.kill()
    return _ORPHANED


def _sweep(directory: Path) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(PermissionError):
        os.setsid()
    sys.stdin.buffer.read()
    for _ in range(50):  # servers that still write there may take some time to end
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return 0
        time.sleep(_POLL_SECONDS)
    return 1


def main(arguments: Sequence[str]) -> int:
    """Run the script; returns its exit code."""
    match arguments:
        case ["run", parent, *command] if command:
            return _run(int(parent), command)
        case ["sweep", directory]:
            return _sweep(Path(directory))
    sys.stderr.write(f"{__doc__}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
