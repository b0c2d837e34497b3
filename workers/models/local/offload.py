"""Runs long computations in a thread, so that the event loop stays responsive."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LONG = 40
"""Utterances, or other items, from which a computation runs in a thread: about ten milliseconds of work."""


_INLINE: ContextVar[bool] = ContextVar("eunoe_inline", default=False)


@contextmanager
def inline() -> Iterator[None]:
    """Compute on the event loop in the body and its tasks, however long it takes: nobody waits for an answer there.

    A thread costs more than it is worth where all wait for the same processor.
    """
    token = _INLINE.set(True)
    try:
        yield
    finally:
        _INLINE.reset(token)


def is_inline() -> bool:
    """Whether long computations stay on the event loop."""
    return _INLINE.get()


async def offload(size: int, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Run ``work``, which has no side effects, and return its result; in a thread where ``size`` is at least `LONG`."""
    if size < LONG or is_inline():
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
