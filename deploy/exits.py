"""Exit codes: what the end of a process says to its supervisor."""

from enum import IntEnum
from typing import Final

from eunoe.schemas.errors import EunoeError, Refused, Unavailable
from eunoe.workers.runner.errors import Fenced
from eunoe.workers.runner.failure_limit import TooManyFailures


class Exit(IntEnum):
    """Exit codes, after sysexits.h where it has one."""

    OK = 0
    """Done, or stopped as it was told to."""
    FAILED = 1
    """The command ran, and its result is bad news."""
    USAGE = 2
    """Wrong input, settings or topics; nothing was done. Starting again changes nothing."""
    UNAVAILABLE = 69
    """A server did not answer for as long as it was waited for."""
    SOFTWARE = 70
    """A fault of eunoe: it crashed; the log has the traceback."""
    AGAIN = 75
    """Another process took over; start afresh."""
    FAILING = 78
    """A stage failed at too many of its events: it stopped before it set the whole topic aside."""
    OVERDUE = 124
    """Told to stop, it had not ended by the deadline; what was unfinished is its successor's."""
    INTERRUPTED = 130
    """Told to stop twice: ended at once."""


HOPELESS: Final = frozenset({Exit.USAGE, Exit.FAILING})
"""A worker that ends so needs a person, not another start."""


def code_of(fault: BaseException) -> Exit:
    """What a process that ends by this fault says."""
    if isinstance(fault, Fenced):
        return Exit.AGAIN
    if isinstance(fault, TooManyFailures):
        return Exit.FAILING
    if isinstance(fault, Refused):
        return Exit.USAGE
    if isinstance(fault, Unavailable):
        return Exit.UNAVAILABLE
    return Exit.FAILED if isinstance(fault, EunoeError) else Exit.SOFTWARE


def meaning(code: int) -> str:
    """An exit code in words; those under 0 are signals."""
    if code < 0:
        return f"signal {-code}"
    return _MEANINGS.get(code, f"code {code}")


_MEANINGS: Final[dict[int, str]] = {
    Exit.OK: "it ended by itself",
    Exit.USAGE: "wrong settings or topics",
    Exit.UNAVAILABLE: "a server stayed away",
    Exit.SOFTWARE: "it crashed",
    Exit.AGAIN: "another process took over",
    Exit.FAILING: "too many of its events failed",
    Exit.OVERDUE: "it had not stopped by its deadline",
    Exit.INTERRUPTED: "it was told twice to stop",
}
