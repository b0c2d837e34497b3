"""Descriptions of exceptions that quote nothing of users."""

import traceback
from pathlib import Path
from typing import Final

MAX_ERROR_CHARS: Final = 500
"""Longest error that the events of a failed decision carry."""


def describe_fault(error: BaseException) -> str:
    """The type of an exception and the place in the code that raised it.

    Its text is left out, because the texts of exceptions quote values: askers, dead letters and logs get this instead.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def fault_frames(error: BaseException) -> str:
    """The stack of an exception, without its text and without values."""
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()
