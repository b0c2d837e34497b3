"""What stages do with their time, and how long the event loop was kept from its other work: counters."""

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from time import perf_counter, thread_time
from typing import Any

_GROWTH = math.log(1.1)
_LEAST_MS = 0.1
_NEWEST = 0.1
_CROWDED_S = 0.01


class Part(StrEnum):
    """Where the seconds of an event go."""

    WAITING = "waiting_s"
    """For its key, for a slot, for another stage, for a server that is away."""
    DECIDING = "deciding_s"
    """In the stage: its reads and the models' time included."""
    APPLYING = "applying_s"
    """Ledger, commit, points, mark: Redis and Qdrant."""
    PUBLISHING = "publishing_s"
    """Until the broker has the messages."""


@dataclass(slots=True)
class StageMeter:
    """Counters of one stage since its process began. Seconds are summed over conversations handled side by side."""

    events: int = 0
    """Records handled to their end, those that were not for the stage included."""
    ignored: int = 0
    """Of these, those that were applied before: delivered again, or sent twice."""
    commits: int = 0
    """Decisions committed."""
    fenced: int = 0
    """Commits refused because another process had applied a later event."""
    waiting_s: float = 0.0
    deciding_s: float = 0.0
    applying_s: float = 0.0
    publishing_s: float = 0.0

    def add(self, part: Part, seconds: float) -> None:
        """Count seconds of a part."""
        setattr(self, part.value, getattr(self, part.value) + seconds)

    @contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        """Count the time of the body, faults included."""
        started = perf_counter()
        try:
            yield
        finally:
            self.add(part, perf_counter() - started)

    def document(self) -> dict[str, float]:
        """The counters by name."""
        return asdict(self)


class Spread:
    """How often a duration came, in classes of 10 %: the counts of two moments can be subtracted."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.longest_ms = 0.0

    def add(self, milliseconds: float, times: int = 1) -> None:
        """Count a duration."""
        self._counts[math.ceil(math.log(max(milliseconds, _LEAST_MS)) / _GROWTH)] += times
        self.longest_ms = max(self.longest_ms, milliseconds)

    def document(self) -> dict[str, int]:
        """Upper bound of a class in milliseconds → count."""
        return {f"{math.exp(place * _GROWTH):.4g}": count for place, count in sorted(self._counts.items())}


@dataclass(slots=True)
class LoopMeter:
    """How late the event loop comes to what is due, sampled by a sleeper."""

    interval_s: float = 0.02
    late: Spread = field(default_factory=Spread)
    """By the clock: what other processes took from us on a busy machine counts too."""
    busy: Spread = field(default_factory=Spread)
    """Of the lateness, what this thread itself computed."""
    recent_s: float = 0.0
    """How late it comes now: the mean of the last samples, the newest of most weight."""
    recent_busy_s: float = 0.0
    """Of it, what this thread itself computed."""

    @property
    def is_overloaded(self) -> bool:
        """True: there is so much to compute that whatever comes must wait for a moment, each time it waits."""
        return self.recent_busy_s > _CROWDED_S

    async def run(self) -> None:
        """Sample for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due, computed = loop.time() + self.interval_s, thread_time()
            await asyncio.sleep(self.interval_s)
            self._count(max(0.0, loop.time() - due), thread_time() - computed)

    def _count(self, late_s: float, computed_s: float) -> None:
        """A block counts once for every sample that it swallowed: whatever was due meanwhile waited too."""
        busy_s = min(late_s, computed_s)
        self.recent_s += (late_s - self.recent_s) * _NEWEST
        self.recent_busy_s += (busy_s - self.recent_busy_s) * _NEWEST
        self.busy.add(busy_s * 1000)
        self.late.longest_ms = max(self.late.longest_ms, late_s * 1000)
        while late_s >= 0:
            self.late.add(late_s * 1000)
            late_s -= self.interval_s

    def document(self) -> dict[str, Any]:
        """Both spreads, and the longest of each in milliseconds."""
        return {
            "late_ms": self.late.document(),
            "late_longest_ms": self.late.longest_ms,
            "busy_ms": self.busy.document(),
            "busy_longest_ms": self.busy.longest_ms,
        }


def percentile(counts: dict[str, int], share: float) -> float:
    """The duration (of a `Spread`'s document) that the ``share`` of all samples does not exceed; 0 without samples."""
    left = share * sum(counts.values())
    for bound, count in sorted(counts.items(), key=lambda item: float(item[0])):
        left -= count
        if left <= 0 and count:
            return float(bound)
    return 0.0
