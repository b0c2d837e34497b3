"""Rough scores of the rows of an array for the queries asked last, kept true while rows change.

One session asks for the same sentences several times, when it updates memories and when it links them, and a dozen rows
change meanwhile. To score all rows anew reads all of them, which takes the longer, the more there are.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_QUERIES: Final = 16
"""Queries whose scores are kept; those of a call with more of them are not."""
_MOST_CHANGES: Final = 0.125
"""Share of the rows after whose change all scores are computed anew."""


class CoarseScores:
    """Scores in single precision, which differ in their last digits by the way that they were computed."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[NDArray[np.float32], int]] = {}
        """Query → its scores and the number of changes that they know, the one asked last at the end."""
        self._changes: list[int] = []
        """The rows that changed since the oldest of the kept scores."""

    def change(self, place: int) -> None:
        """Note that a row has changed, or is new."""
        if self._kept:
            self._changes.append(place)

    def of(self, queries: Sequence[bytes], rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """For each query, a little-endian float32 vector, the products with all of ``rows`` (n, d)."""
        if len(self._changes) > _MOST_CHANGES * len(rows):
            self._forget()
        known = {query: self._brought_up(query, rows) for query in queries if query in self._kept}
        fresh = [query for query in dict.fromkeys(queries) if query not in known]
        if fresh:
            wanted = np.frombuffer(b"".join(fresh), "<f4").reshape(len(fresh), -1)
            products = rows @ wanted.T  # one product for all: it reads the rows once
            known |= {query: np.ascontiguousarray(products[:, at]) for at, query in enumerate(fresh)}
        if len(known) <= MOST_QUERIES:
            self._keep(known)
        return [known[query] for query in queries]

    def _brought_up(self, query: bytes, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        scores, seen = self._kept[query]
        found: NDArray[np.float32] = np.zeros(len(rows), np.float32)
        found[: len(scores)] = scores[: len(rows)]
        places = [place for place in dict.fromkeys(self._changes[seen:]) if place < len(rows)]
        found[places] = rows[places] @ np.frombuffer(query, "<f4")
        return found

    def _keep(self, scores: dict[bytes, NDArray[np.float32]]) -> None:
        for query, found in scores.items():
            self._kept.pop(query, None)
            self._kept[query] = found, len(self._changes)
        for query in list(self._kept)[:-MOST_QUERIES]:
            del self._kept[query]

    def _forget(self) -> None:
        self._kept.clear()
        self._changes.clear()
