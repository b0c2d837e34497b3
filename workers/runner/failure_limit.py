"""When a stage fails so often that it, and not what it is given, must be at fault. Pure."""

from collections import deque
from dataclasses import dataclass

from eunoe.schemas.errors import EunoeError


class TooManyFailures(EunoeError):
    """A stage would set aside more than its share: a bad deploy must not drain its topics into dead letters."""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """The share of its last decisions that a stage may fail at."""

    share: float = 0.25
    """Of the last ``window`` decisions; 1: no limit."""
    window: int = 200
    least: int = 20
    """While fewer were made, as if there had been so many."""


class FailureWindow:
    """The last decisions of one stage: which of them failed."""

    def __init__(self, limit: FailureLimit) -> None:
        self._limit = limit
        self._last: deque[bool] = deque(maxlen=max(1, limit.window))

    def note(self, *, failed: bool) -> None:
        """Count a decision."""
        self._last.append(failed)

    @property
    def failures(self) -> int:
        """How many of the last decisions failed."""
        return sum(self._last)

    @property
    def decisions(self) -> int:
        """How many are looked back on."""
        return len(self._last)

    @property
    def is_over(self) -> bool:
        """True: more failed than the limit's share."""
        return self.failures > self._limit.share * max(self.decisions, self._limit.least)
