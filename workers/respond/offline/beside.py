"""Shares that a row takes from the rows beside it: an answer by what was asked, a reply by what it replies to."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.respond.context import Row, same_day

Floats = NDArray[np.float64]


def adjoin(one: Row, other: Row) -> bool:
    """Whether two rows are of the same day."""
    return same_day(one.at, other.at)


def answered(rows: Sequence[Row], shares: Floats) -> Floats:
    """The share of the row before, where it asks something of another speaker."""
    found = np.zeros(len(rows))
    for place in range(1, len(rows)):
        before, row = rows[place - 1], rows[place]
        if "?" in before.text and before.speaker != row.speaker and adjoin(before, row):
            found[place] = shares[place - 1]
    return found


def replied(rows: Sequence[Row], shares: Floats) -> Floats:
    """The share of the last row before of another speaker, of the same day."""
    found = np.zeros(len(rows))
    other: int | None = None
    for place in range(1, len(rows)):
        if rows[place - 1].speaker != rows[place].speaker:
            other = place - 1
        if other is not None and adjoin(rows[other], rows[place]):
            found[place] = shares[other]
    return found
