"""Event loop, signals, memory allocator and garbage collector of processes that mostly wait for servers."""

import asyncio
import ctypes
import gc
import os
import signal
import sys

_SELDOM = (10_000, 5, 20)
"""An ask makes thousands of objects, so the youngest are looked at seldom; all are after a million new ones."""
_M_ARENA_MAX = -8
"""The option of glibc's ``mallopt``."""


def use_fast_loops() -> None:
    """Make uvloop the event loop policy of this process, also for the threads of Faust.

    Does nothing on Windows, which uvloop does not support.
    """
    if sys.platform == "win32":
        return
    import uvloop  # noqa: PLC0415 - not there on Windows

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def share_one_heap() -> None:
    """Let all threads of this process allocate from one heap, unless ``MALLOC_ARENA_MAX`` says otherwise.

    Each of a worker's dozen threads would keep a heap of its own, of which it uses a little at a time: 15 MB of 290.
    Does nothing where the C library is not glibc.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(_M_ARENA_MAX, 1)


def give_back_free_memory() -> None:
    """Give all free pages of the heap back to the system; takes a millisecond, seldom ten.

    glibc by itself gives back the end of the heap only. Where a bulk import leaves one small object there, all that was
    freed below it stays: ten MB and more of a worker. Does nothing where the C library is not glibc.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def let_go() -> None:
    """Collect all garbage and give the memory back: for a process that is done with a piece of work before the next.

    Closed clients refer to themselves in circles, which are collected seldom (`collect_seldom`). After `keep_for_good`
    it takes some 10 ms, without it a third of a second.
    """
    gc.collect()
    give_back_free_memory()


def collect_seldom() -> None:
    """Run the garbage collector rarely, as all commands do; saves a worker a second while it imports its libraries."""
    gc.set_threshold(*_SELDOM)


def keep_for_good() -> None:
    """Exclude all present objects from garbage collection; call it once the process has started.

    Libraries and vocabularies are a million objects that live as long as the process. A full collection over them
    blocked the event loop for a quarter of a second.
    """
    gc.freeze()
    collect_seldom()


def stop_signal() -> asyncio.Event:
    """An event that is set at Ctrl-C and SIGTERM from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
