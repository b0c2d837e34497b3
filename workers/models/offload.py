"""Runs long computations in a thread, so that the event loop stays responsive."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LONG = 40
"""Utterances, or other items, from which a computation runs in a thread: about ten milliseconds of work."""


async def offload(size: int, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Run ``work``, which has no side effects, and return its result; in a thread where ``size`` is at least `LONG`."""
    if size < LONG:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
