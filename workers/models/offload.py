"""Long computations beside the event loop: others' events, heartbeats and timers go on meanwhile."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LONG = 40
"""Utterances (or as much of anything else) from which on a computation goes to a thread: some ten milliseconds."""


async def offload(size: int, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """What ``work`` gives; in a thread where ``size`` says that it is long, so it must be pure."""
    if size < LONG:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
