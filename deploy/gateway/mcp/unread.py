"""Tells when nobody reads an output any more."""

import asyncio
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def when_unread(output: int, tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` once, when the other end of ``output``, a pipe or a socket, is closed.

    A write would tell it, too, but may never come. ``output``: a file descriptor; others are not watched.
    """
    loop = asyncio.get_running_loop()
    watched = os.dup(output)  # whoever writes may put something else in its place

    def look() -> None:
        loop.remove_reader(watched)  # else this is called again at once
        if is_unread(watched):
            tell()

    try:
        with suppress(OSError):  # a file
            loop.add_reader(watched, look)
        yield
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def is_unread(output: int) -> bool:
    """Whether the other end of a pipe or a socket is closed; what came from there, where it is both ways, says no."""
    poll = select.poll()
    poll.register(output, 0)
    return bool(poll.poll(0))
