"""Lets the acks of all partitions of a consumer begin together, at intervals."""

import asyncio
from collections.abc import Callable

Begin = Callable[[], None]
"""Begins the ack of one partition."""


class AckRounds:
    """The moments at which acks may begin; those that fall due between two of them are merged by their partition.

    What is to be stored before the acks of a round is asked at once, and may share one request. The first ack after a
    silence waits for nothing. ``interval_s``: the least time from one round to the next, in seconds.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waiting: list[Begin] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")

    def join(self, begin: Begin) -> None:
        """Have ``begin`` called in the next round, never before this returns."""
        self._waiting.append(begin)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(self._last + self._interval_s, loop.time()), self.begin)

    def hurry(self) -> None:
        """Begin all acks that wait, and later ones as soon as they fall due: the partitions are about to be lost."""
        self._interval_s = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin the acks that wait, without waiting for their round."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._last = asyncio.get_running_loop().time()
        for begin in waiting:
            begin()
