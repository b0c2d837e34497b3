"""Waits for the first of several to end, cancels tasks so that they end, and ends work in spite of that."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any


async def first_ended(*parts: Awaitable[object]) -> None:
    """Wait until one of ``parts`` has ended, then cancel the others and wait for these; raises what one has raised."""
    waits = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(*waits)


async def completed(work: Awaitable[object]) -> None:
    """Wait for the end of ``work``, also where this task is cancelled meanwhile; that is raised after it.

    A second cancellation cancels the work too.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def cancelled(*tasks: "asyncio.Future[Any]", every_s: float = 1.0) -> None:
    """Cancel tasks and wait for their end; raises what the first of them that failed raised.

    A cancellation can be lost, as in `asyncio.wait_for` of Python 3.11, where what it waits for ends at that moment. So
    it is repeated every ``every_s`` seconds.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=every_s)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            task.result()
