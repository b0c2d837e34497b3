"""The log of requests that fail because a server is away: a line now and then, however many they are."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
"""Least seconds between two lines on the same cause."""


@dataclass(slots=True)
class FaultLog:
    """Logs the first failure of each cause, and then at intervals, with the number of those in between."""

    clock: Callable[[], float] = monotonic
    _causes: dict[str, "_Cause"] = field(default_factory=dict)

    def note(self, cause: str, level: int, why: object) -> None:
        """Note a failed request. ``cause`` is one of few, such as the name of a server."""
        now = self.clock()
        known = self._causes.setdefault(cause, _Cause())
        if now < known.next_at:
            known.left_out += 1
            return
        more = f" (and {known.left_out} more since the last line)" if known.left_out else ""
        log.log(level, "503: %s%s", why, more)
        known.next_at, known.left_out = now + EVERY_S, 0


@dataclass(slots=True)
class _Cause:
    next_at: float = float("-inf")
    """The earliest time of the next line, by the clock."""
    left_out: int = 0
    """Failures since the last line."""
