"""The offsets of one partition that may be committed: those without an unfinished record before them."""

from collections import deque


class OffsetTracker:
    """Takes offsets in log order and in any order back; releases them in log order."""

    def __init__(self) -> None:
        # two lines of numbers that the records hold too: pairs would take 3 MB more of an import read ahead
        self._open: deque[int] = deque()
        self._times: deque[int] = deque()
        self._done: set[int] = set()
        self._last = -1

    @property
    def outstanding(self) -> int:
        """Number of offsets that entered and are not released."""
        return len(self._open)

    @property
    def last(self) -> int:
        """Newest offset that entered; -1 before the first one."""
        return self._last

    @property
    def oldest_ms(self) -> int | None:
        """The time of the oldest offset that is not released, in milliseconds; `None` where there is none."""
        return self._times[0] if self._times else None

    def enter(self, offset: int, at_ms: int = 0) -> bool:
        """Note an offset in work; returns False for a redelivery: it or a later one entered before.

        ``at_ms`` is the time of the record, in milliseconds.
        """
        if offset <= self._last:
            return False
        self._open.append(offset)
        self._times.append(at_ms)
        self._last = offset
        return True

    def leave(self, offset: int) -> int | None:
        """Note that an offset is done; returns the newest offset that this releases.

        `None` means that an earlier offset is still in work.
        """
        self._done.add(offset)
        newest = None
        while self._open and self._open[0] in self._done:
            newest = self._open.popleft()
            self._times.popleft()
            self._done.discard(newest)
        return newest
