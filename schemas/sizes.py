"""Selection of values that fit a size limit."""

from collections.abc import Sequence
from typing import TypeVar

from eunoe.schemas.base import Value

V = TypeVar("V", bound=Value)


def latest_that_fit(values: Sequence[V], max_bytes: int) -> tuple[V, ...]:
    """The latest values whose JSON together fits ``max_bytes``, in their order."""
    kept: list[V] = []
    left = max_bytes
    for value in reversed(values):
        left -= len(value.to_json())
        if left < 0:
            break
        kept.append(value)
    return tuple(reversed(kept))
