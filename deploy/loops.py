"""The event loop of the processes that do nothing but talk to servers, and what keeps it free."""

import asyncio
import gc
import sys

_YOUNG = 5_000
_OLD = 20


def use_fast_loops() -> None:
    """Let every event loop that this process makes from now on, those of Faust's threads too, be uvloop's.

    Nothing changes on Windows, which uvloop does not know.
    """
    if sys.platform == "win32":
        return
    import uvloop  # noqa: PLC0415 - not there on Windows

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def spare_the_collector() -> None:
    """Let the garbage collector pass over all that is there now; called once a process has all that it keeps.

    Libraries and vocabularies are a million objects that live as long as the process: looking through them took a
    quarter of a second each time, in which nobody was served.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLD, _OLD)
