"""Decides how many calls at once an endpoint is asked, by when its answers come.

A server of few slots lets the calls wait that it cannot take yet, and the wait counts against the time of an answer. Of
too many calls at once most are given up, and the server's work on them is lost.
"""

from collections import deque
from statistics import median
from typing import Final

EARLY: Final = 0.25
"""The share of a call's time limit within which an answer says that the endpoint may be asked more at once."""
_ANSWERS_NOTED: Final = 1024


class Pace:
    """The calls that may be in flight: at most ``total``, fewer once answers came late. Times are in seconds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self.allowed = total
        """The most calls at once now."""
        self._lowered_at = float("-inf")
        self._answers: deque[tuple[float, float]] = deque(maxlen=_ANSWERS_NOTED)
        """The last answers: the time of each, and the share of its time limit that it took."""

    def answered(self, started: float, ended: float, limit_s: float) -> None:
        """Note an answer to a call that might take ``limit_s``. An early one allows one more call at once."""
        share = (ended - started) / limit_s
        self._answers.append((ended, share))
        if share < EARLY and self.allowed < self._total:
            self.allowed += 1

    def timed_out(self, started: float, ended: float, held: int) -> bool:
        """Note a call without an answer in its time, beside ``held - 1`` others; returns whether it waited for them.

        It did where the answers of that time came late, too. As many calls as were answered meanwhile would each take
        the whole time, so half as many are allowed; of calls that were sent together only the first lowers the number.
        """
        shares = [share for at, share in self._answers if at >= started]
        waited = held > 1 and bool(shares) and median(shares) > EARLY
        if held > 1 and (waited or not shares) and started >= self._lowered_at:
            self.allowed = max(1, min(held, len(shares)) // 2)
            self._lowered_at = ended
        return waited
