"""Remembers that Redis hangs, so that not every request, and every step of it, waits for it anew."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

from eunoe.schemas.errors import Unavailable

AWAY_S: Final = 2.0
"""Time for which a Redis that hung is not asked again."""
_SLOW_S: Final = 0.5
"""Least time of a failure after which Redis hangs; one that fails sooner costs nothing to ask."""


@dataclass(slots=True)
class RedisAbsence:
    """Shared by all who ask Redis for a gateway."""

    clock: Callable[[], float] = monotonic
    _until: float = float("-inf")

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Ask Redis in the block; raises `Unavailable` at once where it hung a moment ago."""
        begun = self.clock()
        if begun < self._until:
            raise Unavailable("Redis did not answer a moment ago", "Redis")
        try:
            yield
        except Unavailable:
            now = self.clock()
            if now - begun >= _SLOW_S:
                self._until = now + AWAY_S
            raise
