"""Which event loop the processes run on that do nothing but talk to servers."""

import asyncio
import sys


def use_fast_loops() -> None:
    """Let every event loop that this process makes from now on, those of Faust's threads too, be uvloop's.

    Nothing changes on Windows, which uvloop does not know.
    """
    if sys.platform == "win32":
        return
    import uvloop  # noqa: PLC0415 - not there on Windows

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
