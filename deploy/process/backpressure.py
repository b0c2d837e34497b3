"""Backpressure of a process: how many keys a stage may have in work while the event loop lags."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

LAG_S: Final = 0.01
"""Mean lag of the event loop, by what its thread computes, above which few keys are in work."""
ASKED_LAG_S: Final = 0.002
"""The same while somebody asks: an ask takes some thirty awaits, and each is late by the lag."""
FEW: Final = 4
"""Keys that a stage has in work at most above the lag; most of them wait for a model."""
ASKED_FOR_S: Final = 5.0
"""Seconds after an ask for which another one is expected: the first steps of an ask are late by the lag, too."""


@dataclass(slots=True)
class LagBackpressure:
    """Bounds the keys that a stage has in work by the lag of the event loop, more strictly while somebody asks."""

    lag_s: Callable[[], float]
    """The current mean lag of the event loop by computing, in seconds."""
    is_asked: Callable[[], bool]
    """Whether the process has an ask to read or to answer."""
    few_asked: int = FEW
    """`FEW` while somebody asks; less for a stage that computes all the time, and waits for no model."""
    clock: Callable[[], float] = monotonic
    _asked_at: float = -inf

    def most_in_work(self) -> int | None:
        """The most keys that a stage may have in work now; `None`: as many as its limits allow."""
        now = self.clock()
        if self.is_asked():
            self._asked_at = now
        asked = now - self._asked_at < ASKED_FOR_S
        if self.lag_s() <= (ASKED_LAG_S if asked else LAG_S):
            return None
        return self.few_asked if asked else FEW
