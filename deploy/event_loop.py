"""The event loop of the processes that do nothing but talk to servers, and what keeps it free."""

import asyncio
import gc
import sys

_STARTING = (100_000, 50, 1_000)
_RUNNING = (1_000, 20, 50)


def use_fast_loops() -> None:
    """Let every event loop that this process makes from now on, those of Faust's threads too, be uvloop's.

    Nothing changes on Windows, which uvloop does not know.
    """
    if sys.platform == "win32":
        return
    import uvloop  # noqa: PLC0415 - not there on Windows

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def collect_seldom() -> None:
    """Let the garbage collector rest while a process loads what it keeps: a second of a worker's start went there."""
    gc.set_threshold(*_STARTING)


def keep_for_good() -> None:
    """Let the garbage collector pass over all that is there now; called once a process has all that it keeps.

    Libraries and vocabularies are a million objects that live as long as the process: looking through them took a
    quarter of a second each time, in which nobody was served.
    """
    gc.freeze()
    gc.set_threshold(*_RUNNING)
