"""Counters: where the time of stages goes, and how late the event loop runs."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import StrEnum
from time import perf_counter, thread_time
from typing import Any, Final

from eunoe.workers.models.questions.buckets import Buckets
from eunoe.workers.models.questions.metering import DecidedBy

STAGE_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Bounds for the parts of handling a record, in seconds."""
ASK_S = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
"""Bounds for the way of an ask."""
FRESHNESS_S = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)
"""Bounds for the time from the end of a session to the commit of a stage."""

_GROWTH = math.log(1.1)
_LEAST_MS = 0.1
_NEWEST_WEIGHT = 0.1
_IDLE_SAMPLES = 100
"""Samples in a row without anything to do after which sampling is slow."""
_IDLE_INTERVAL_S = 0.5


class Part(StrEnum):
    """The parts of the time that an event takes."""

    WAITING = "waiting_s"
    """For its key, for the concurrency limit, for another stage, for a server that is away."""
    DECIDING = "deciding_s"
    """In the stage, with its reads and the calls of models."""
    APPLYING = "applying_s"
    """Ledger, commit, points, mark: Redis and Qdrant."""
    PUBLISHING = "publishing_s"
    """Until the broker has the messages."""


_TIMED = (Part.DECIDING, Part.APPLYING, Part.PUBLISHING)


class Hop(StrEnum):
    """The parts of the way of an ask."""

    STAGE = "stage"
    """From its arrival in the topic that the stage reads to the commit."""
    WHOLE = "whole"
    """From its arrival in the log to the commit."""


class SessionOutcome(StrEnum):
    """The outcomes of the summary of a session."""

    MEMORIES = "memories"
    NO_EVIDENCE = "no_evidence"
    """It has no utterance that a memory may cite."""
    NONE_FOUND = "none_found"
    SKIPPED = "skipped"
    """A stage failed at it."""


BEHIND: Final = ("0", "1", "2", "more")
"""Closed sessions that were not in memory yet when a reply was made."""


def behind(sessions: int) -> str:
    """The label for a number of sessions."""
    return BEHIND[min(max(sessions, 0), len(BEHIND) - 1)]


@dataclass(slots=True)
class StageMeter:
    """Counters of one stage since its process started. Seconds are summed over concurrent conversations."""

    events: int = 0
    """Records handled completely, with those that the stage does not consume."""
    ignored: int = 0
    """Records among these that were applied before: redelivered, or sent twice."""
    expired: int = 0
    """Requests among these that were dropped unanswered: they are older than their ledgers are kept."""
    erased: int = 0
    """Records among these that were passed over: the key that they are sealed with was destroyed."""
    commits: int = 0
    """Decisions committed."""
    fenced: int = 0
    """Commits refused because another process had applied a later event."""
    stale: int = 0
    """Decisions made anew, because another process had changed what was known of a conversation."""
    went_back: int = 0
    """Partitions of which the state store was found to have lost acknowledged writes."""
    waiting_s: float = 0.0
    deciding_s: float = 0.0
    applying_s: float = 0.0
    publishing_s: float = 0.0
    parts: dict[Part, Buckets] = field(default_factory=lambda: {part: Buckets(STAGE_S) for part in _TIMED})
    """The single durations that the sums are of."""
    asks: dict[Hop, Buckets] = field(default_factory=lambda: {hop: Buckets(ASK_S) for hop in Hop})
    """The way of the asks that were committed here."""
    freshness: Buckets = field(default_factory=lambda: Buckets(FRESHNESS_S))
    """From the end of a session to the commit of what this stage makes of it."""
    model: str = ""
    """The name of the language model that it asks; empty where it asks none."""
    decisions: Counter[DecidedBy] = field(default_factory=lambda: Counter(dict.fromkeys(DecidedBy, 0)))
    """Decisions committed, by who made them."""
    sessions: Counter[SessionOutcome] = field(default_factory=lambda: Counter(dict.fromkeys(SessionOutcome, 0)))
    """Sessions that were summarized here."""
    replies: Counter[tuple[str, str]] = field(
        default_factory=lambda: Counter({(infused, far): 0 for infused in ("true", "false") for far in BEHIND})
    )
    """Replies given here: whether blend ran before it, and how far memory was behind."""

    def add(self, part: Part, seconds: float) -> None:
        """Add seconds to a part."""
        setattr(self, part.value, getattr(self, part.value) + seconds)
        if part in self.parts:
            self.parts[part].add(seconds)

    @contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        """Count the time of the body, also where it raises."""
        started = perf_counter()
        try:
            yield
        finally:
            self.add(part, perf_counter() - started)

    def document(self) -> dict[str, float]:
        """The counters by name, without the histograms."""
        return {one.name: value for one in fields(self) if isinstance(value := getattr(self, one.name), int | float)}


class Spread:
    """A histogram of durations in classes of 10 %; the counts of two points in time can be subtracted."""

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
    """The lateness of the event loop, sampled by a task that sleeps."""

    interval_s: float = 0.02
    is_idle: Callable[[], bool] = lambda: False
    """Whether the process has nothing to do; sampling is then slow."""
    late: Spread = field(default_factory=Spread)
    """By the clock: on a busy machine this includes the time of other processes."""
    busy: Spread = field(default_factory=Spread)
    """The part of the lateness in which this thread computed."""
    recent_s: float = 0.0
    """The current lateness in seconds: an exponential moving average of the samples."""
    recent_busy_s: float = 0.0
    """The part of it in which this thread computed."""

    async def run(self) -> None:
        """Sample forever."""
        loop = asyncio.get_running_loop()
        idle = 0
        while True:
            idle = idle + 1 if self.is_idle() else 0
            pause_s = self.interval_s if idle < _IDLE_SAMPLES else _IDLE_INTERVAL_S
            due, computed = loop.time() + pause_s, thread_time()
            await asyncio.sleep(pause_s)
            self._count(max(0.0, loop.time() - due), thread_time() - computed)

    def _count(self, late_s: float, computed_s: float) -> None:
        """A block counts once per sample that it delayed: all that was due meanwhile waited too."""
        busy_s = min(late_s, computed_s)
        self.recent_s += (late_s - self.recent_s) * _NEWEST_WEIGHT
        self.recent_busy_s += (busy_s - self.recent_busy_s) * _NEWEST_WEIGHT
        self.busy.add(busy_s * 1000)
        self.late.longest_ms = max(self.late.longest_ms, late_s * 1000)
        while late_s >= 0:
            self.late.add(late_s * 1000)
            late_s -= self.interval_s

    def document(self) -> dict[str, Any]:
        """Both histograms, and the longest of each in milliseconds."""
        return {
            "late_ms": self.late.document(),
            "late_longest_ms": self.late.longest_ms,
            "busy_ms": self.busy.document(),
            "busy_longest_ms": self.busy.longest_ms,
        }


def percentile(counts: dict[str, int], share: float) -> float:
    """The duration in milliseconds that ``share`` of the samples does not exceed; 0 without samples.

    ``counts`` is the document of a `Spread`.
    """
    left = share * sum(counts.values())
    for bound, count in sorted(counts.items(), key=lambda item: float(item[0])):
        left -= count
        if left <= 0 and count:
            return float(bound)
    return 0.0
