"""Durations counted by upper bounds, as histograms of Prometheus are."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Buckets:
    """Counts of durations in seconds. All counts are there from the start, as zeros."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: the upper bounds in seconds, growing; what is longer than all of them is counted, too."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration; one below 0, which two clocks can give, counts as 0."""
        at_least_0 = max(0.0, seconds)
        self._counts[bisect_left(self._bounds, at_least_0)] += 1
        self._sum_s += at_least_0

    @property
    def sum_s(self) -> float:
        """The sum of all durations, in seconds."""
        return self._sum_s

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bound as text → durations that are not longer; the last bound is ``+Inf``."""
        names = (*map(str, map(float, self._bounds)), "+Inf")
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))
