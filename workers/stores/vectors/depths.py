"""The depths of a search for memories that hold: the index has ended ones too, which may be most of what is found."""

from collections.abc import Iterator
from typing import Final

FACTOR: Final = 4
MOST: Final = 3_200
"""Hits of the deepest search, unless the first is deeper."""


def depths(first: int) -> Iterator[int]:
    """The limits of one search after the other, each deeper than the one before, from ``first`` to `MOST`.

    Whoever searches stops when enough is found, or where fewer hits come than the limit: there are no more.
    """
    limit = first
    while limit < MOST:
        yield limit
        limit *= FACTOR
    yield max(first, MOST)
