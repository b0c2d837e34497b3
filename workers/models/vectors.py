"""Normalizes vectors to unit length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.ports import Vectors


def unit_rows(rows: NDArray[np.floating]) -> Vectors:
    """Divide each row of shape (n, d) by its length, as float32; a zero or invalid row becomes the first axis."""
    wide = np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    lost = lengths[:, 0] < 1e-12
    unit = wide / np.where(lengths < 1e-12, 1.0, lengths)
    unit[lost] = 0.0
    unit[lost, 0] = 1.0
    return unit.astype(np.float32)


def stack(rows: Sequence[NDArray[np.float32]], dimensions: int) -> Vectors:
    """Stack rows to an array of shape (n, dimensions), also where there are none."""
    return np.stack(rows).astype(np.float32) if rows else np.empty((0, dimensions), np.float32)
