"""Says what a process waits for where a server takes a connection and does not answer."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

SILENT_S: Final = 5.0
"""Seconds without an answer after which a log line names the server; its client gives up far later."""


async def told_if_silent(server: str, work: Awaitable[T], after_s: float = SILENT_S) -> T:
    """The result of ``work``; a log line names the server where it takes longer than ``after_s`` seconds.

    Raises what ``work`` raises.
    """
    loop = asyncio.get_running_loop()
    telling = loop.call_later(after_s, log.warning, "waiting for %s: no answer after %g s", server, after_s)
    try:
        return await work
    finally:
        telling.cancel()
