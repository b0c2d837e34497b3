"""Progress of a rebuild, and of each of its processes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from eunoe.schemas.base import Value


class ProgressLine(Value):
    """One line of a process's output: its work since the line before."""

    conversations: int = 0
    events: int = 0
    sessions: int = 0
    memories: int = 0
    failed: int = 0
    kept: int = 0
    """Conversations finished by an earlier run of the same rebuild."""
    kept_events: int = 0
    """Their events."""
    calls: int = 0
    """Model calls since the process started, corrections and retries included."""
    tokens: int = 0
    """Prompt and completion tokens since the process started."""
    cost: float = 0.0
    """Dollars since the process started; 0 where no price is set."""


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """The state of a rebuild."""

    phase: str
    """``answers``, ``log`` or ``memory``; in a partial rebuild also ``copy`` and ``topics``."""
    done: int
    """Units done: answers in ``answers``; conversations in ``copy`` and a partial ``memory``; else events."""
    total: int
    """Units in all; 0 where not known yet."""
    made: ProgressLine = field(default_factory=ProgressLine)
    """Sums over all processes."""
    seconds: float = 0.0
    """Seconds since the phase began."""


ReportRebuild = Callable[[RebuildProgress], None]
"""Called after each step with the state of the rebuild."""


class PhaseClock:
    """Passes on the states of a rebuild, and adds up the seconds of its phases."""

    def __init__(self, report: ReportRebuild) -> None:
        self._report = report
        self._since = monotonic()
        self._seconds: dict[str, float] = {}

    def __call__(self, progress: RebuildProgress) -> None:
        """The time since the call before was spent on the phase of ``progress``."""
        now = monotonic()
        self._seconds[progress.phase] = self._seconds.get(progress.phase, 0.0) + now - self._since
        self._since = now
        self._report(progress)

    @property
    def seconds(self) -> dict[str, float]:
        """Phase → its seconds, rounded to milliseconds."""
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}
