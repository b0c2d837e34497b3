"""The limit of failures above which the stage must be at fault, and not its input."""

from collections import deque
from dataclasses import dataclass

from eunoe.schemas.errors import EunoeError


class TooManyFailures(EunoeError):
    """A stage fails at unrelated conversations: a bad deploy must not drain its topics into dead letters."""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """The share of its last conversations that a stage may fail at."""

    share: float = 0.25
    """Share of failed conversations among those of the last ``window`` decisions; 1: no limit."""
    window: int = 200
    """Decisions."""
    least: int = 20
    """Conversations. While there are fewer, the share is taken of so many."""


class FailureWindow:
    """The last decisions of one stage: their conversations, and whether they failed.

    Conversations are counted, not decisions: one that always fails weighs as much as one that failed once.
    """

    def __init__(self, limit: FailureLimit) -> None:
        self._limit = limit
        self._last: deque[tuple[str, bool, bool]] = deque(maxlen=max(1, limit.window))

    def note(self, key: str, *, failed: bool, ordinary: bool = True) -> None:
        """Count a decision about the conversation ``key``; ``ordinary``: see `eunoe.workers.runner.ordinary`."""
        self._last.append((key, failed, ordinary))

    @property
    def failures(self) -> int:
        """The number of conversations with a failed decision."""
        return len({key for key, failed, _ in self._last if failed})

    @property
    def ordinary_failures(self) -> int:
        """The number of conversations with a failed decision on ordinary events."""
        return len({key for key, failed, ordinary in self._last if failed and ordinary})

    @property
    def conversations(self) -> int:
        """The number of conversations among the last decisions."""
        return len({key for key, _, _ in self._last})

    @property
    def is_over(self) -> bool:
        """Whether more conversations failed than the limit's share."""
        return self._exceeds(self.failures)

    @property
    def is_over_ordinary(self) -> bool:
        """Whether more conversations failed at ordinary events than the limit's share: the stage is at fault."""
        return self._exceeds(self.ordinary_failures)

    def _exceeds(self, failures: int) -> bool:
        return failures > self._limit.share * max(self.conversations, self._limit.least)
