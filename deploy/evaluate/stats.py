"""Means, bootstrap intervals and medians."""

from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
SEED = 7


def percent(shares: Sequence[float]) -> float:
    """The mean of shares in percent, to one decimal; 0 for no shares."""
    return round(100 * sum(shares) / max(len(shares), 1), 1)


def interval(shares: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean in percent, by a seeded bootstrap of `RESAMPLES` resamples (Efron, 1979)."""
    if not shares:
        return (0.0, 0.0)
    values = np.asarray(shares, dtype=np.float64)
    drawn = np.random.default_rng(SEED).integers(0, len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(100 * values[drawn].mean(axis=1), (2.5, 97.5))
    return round(float(low), 1), round(float(high), 1)


def median(values: Sequence[float]) -> float:
    """The median, to one decimal; 0 for no values."""
    return round(float(np.median(values)), 1) if len(values) else 0.0


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that ``share`` percent do not exceed, interpolated; `None` for no values."""
    return float(np.percentile(values, share)) if len(values) else None
