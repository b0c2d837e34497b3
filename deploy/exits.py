"""Exit codes of the commands and workers."""

from enum import IntEnum
from typing import Final

from eunoe.schemas.errors import EunoeError, Refused, Unavailable
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.failure_limit import TooManyFailures


class Exit(IntEnum):
    """Exit codes, after sysexits.h where it has one."""

    OK = 0
    """Done, or stopped on request."""
    FAILED = 1
    """The command ran, and its result is negative: a difference, a failure, a dead letter."""
    USAGE = 2
    """Wrong input, settings or topics; nothing was done, and a restart would not help."""
    UNAVAILABLE = 69
    """A server did not answer within the time limit."""
    SOFTWARE = 70
    """A crash by a bug in eunoe; the log has the traceback."""
    INCOMPLETE = 72
    """A part of the installation is missing, such as a library or a codec; a restart would not help."""
    AGAIN = 75
    """Another process took over; start this one again."""
    FAILING = 78
    """A stage failed in too many of its conversations; it stopped before it dead-lettered the whole topic."""
    OVERDUE = 124
    """Not stopped by the deadline; the next process takes over the unfinished work."""
    INTERRUPTED = 130
    """Stopped at once by a second signal."""


HOPELESS: Final = frozenset({Exit.USAGE, Exit.INCOMPLETE, Exit.FAILING})
"""Exit codes after which a worker is not started again: a person has to act."""


def code_of(fault: BaseException) -> Exit:
    """The exit code of a process that ends with this exception."""
    if isinstance(fault, Fenced):
        return Exit.AGAIN
    if isinstance(fault, TooManyFailures):
        return Exit.FAILING
    if isinstance(fault, Refused):
        return Exit.USAGE
    if isinstance(fault, Unavailable):
        return Exit.UNAVAILABLE
    if isinstance(fault, ImportError):
        return Exit.INCOMPLETE
    return Exit.FAILED if isinstance(fault, EunoeError) else Exit.SOFTWARE


def meaning(code: int) -> str:
    """An exit code in words; codes below 0 are signals."""
    if code < 0:
        return f"signal {-code}"
    return _MEANINGS.get(code, f"code {code}")


_MEANINGS: Final[dict[int, str]] = {
    Exit.OK: "it ended by itself",
    Exit.USAGE: "wrong settings or topics",
    Exit.UNAVAILABLE: "a server stayed down",
    Exit.SOFTWARE: "it crashed; where it does so again at one record, `eunoe skip` passes over that",
    Exit.INCOMPLETE: "its installation is incomplete",
    Exit.AGAIN: "another process took over",
    Exit.FAILING: "too many of its events failed",
    Exit.OVERDUE: "it did not stop in time",
    Exit.INTERRUPTED: "it was stopped by a second signal",
}
