"""Event loop and garbage collector settings of processes that mostly wait for servers."""

import asyncio
import gc
import sys

_STARTING = (100_000, 50, 1_000)
_RUNNING = (1_000, 20, 50)


def use_fast_loops() -> None:
    """Make uvloop the event loop policy of this process, also for the threads of Faust.

    Does nothing on Windows, which uvloop does not support.
    """
    if sys.platform == "win32":
        return
    import uvloop  # noqa: PLC0415 - not there on Windows

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def collect_seldom() -> None:
    """Run the garbage collector rarely while a process imports its libraries; saves a worker a second at start."""
    gc.set_threshold(*_STARTING)


def keep_for_good() -> None:
    """Exclude all present objects from garbage collection; call it once the process has started.

    Libraries and vocabularies are a million objects that live as long as the process. A full collection over them
    blocked the event loop for a quarter of a second.
    """
    gc.freeze()
    gc.set_threshold(*_RUNNING)
