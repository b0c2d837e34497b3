"""The first lines of `eunoe`: what must hold while its libraries are imported."""

import os
import signal
import sys
from io import TextIOWrapper
from typing import Final

_INTERRUPTED: Final = 130
"""`eunoe.deploy.exits.Exit.INTERRUPTED`, whose module takes a while to import."""


def main() -> None:
    """Run the command of ``sys.argv`` and end the process; Ctrl-C never prints a traceback."""
    end_on_interrupt()
    open_streams()
    from eunoe.deploy.cli.main import main as run  # noqa: PLC0415 - takes half a second

    run()


def open_streams() -> None:
    """Give a process that was started without one of the standard streams an empty one.

    A character that an output's encoding does not have is written as a question mark; JSON is always UTF-8.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - before pathlib is there
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def end_on_interrupt() -> None:
    """Let Ctrl-C end the process at once, where nothing has to be closed.

    An exception in the middle of an import, or of the interpreter's end, would be printed with its traceback. A process
    that was told to ignore Ctrl-C goes on to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again: the command that begins may have something to close."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os._exit(_INTERRUPTED)
