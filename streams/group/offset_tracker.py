"""Which offsets of one partition may be committed: only those with nothing unfinished before them."""

from collections import deque


class OffsetTracker:
    """Offsets enter in log order, leave in any order, and are let through in log order."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._done: set[int] = set()
        self._last = -1

    @property
    def outstanding(self) -> int:
        """How many entered and are not let through."""
        return len(self._open)

    @property
    def last(self) -> int:
        """The newest offset that entered; -1: none."""
        return self._last

    def enter(self, offset: int) -> bool:
        """Note an offset that is being worked on; False when it (or a later one) entered before: a redelivery."""
        if offset <= self._last:
            return False
        self._open.append(offset)
        self._last = offset
        return True

    def leave(self, offset: int) -> int | None:
        """Note that an offset is done; the newest offset that this lets through, None while an earlier one is open."""
        self._done.add(offset)
        newest = None
        while self._open and self._open[0] in self._done:
            newest = self._open.popleft()
            self._done.discard(newest)
        return newest
