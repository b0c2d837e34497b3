"""Background work in rounds: a round that fails is told, and is not the last one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from eunoe.schemas.errors import EunoeError, Unavailable
from eunoe.workers.runner.faults import describe_fault, fault_frames

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Faults:
    """The faults of rounds of one work. ``name``: what the work is, for the log."""

    name: str
    level: int = logging.DEBUG
    """The level at which an absent server is told: it is told elsewhere, where stages wait for it."""
    _before: str = field(default="", init=False)

    def tell(self, fault: Exception) -> None:
        """Log the fault of a round; one that nobody foresaw as an error, with its place where it is a new one."""
        if isinstance(fault, EunoeError):
            log.log(self.level if isinstance(fault, Unavailable) else logging.ERROR, "%s: %s", self.name, fault)
            return
        told, frames = describe_fault(fault), fault_frames(fault)
        log.error("%s failed, and is tried again: %s%s", self.name, told, "" if told == self._before else f"\n{frames}")
        self._before = told


async def repeat(work: Callable[[], Awaitable[None]], every_s: float, faults: Faults) -> None:
    """Do ``work`` again and again, ``every_s`` seconds after its end, until cancelled; no fault ends that."""
    while True:
        try:
            await work()
        except Exception as fault:
            faults.tell(fault)
        await asyncio.sleep(every_s)
