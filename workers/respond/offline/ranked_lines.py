"""Lines that may be quoted, with their scores and their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from eunoe.workers.respond.context import Row, fold
from eunoe.workers.respond.offline.beside import Floats

ALIKE = 1.5
"""Maximum distance from the best score of lines that may be about the same thing at different times."""


@dataclass(frozen=True, slots=True)
class RankedLines:
    """Lines with their scores, and the order of those that may answer."""

    rows: Sequence[Row]
    scores: Floats
    """The score of each row, shape (n,)."""
    order: Sequence[int]
    """Indices of rows, the best first; of equal scores the first row."""

    @property
    def best(self) -> int:
        """The index of the best line. Raises ``IndexError`` where there is none."""
        return self.order[0]

    def current(self) -> "RankedLines":
        """The lines that still hold."""
        return RankedLines(self.rows, self.scores, [index for index in self.order if self.rows[index].is_current])

    def near_best(self) -> list[int]:
        """The indices of the lines whose score is at most `ALIKE` from the best one, the best first."""
        return [index for index in self.order if self.scores[index] >= self.scores[self.best] - ALIKE]

    def by_time(self, indices: Iterable[int]) -> list[int]:
        """The indices in the order in which their lines were said."""
        return sorted(indices, key=self.time_of)

    def time_of(self, index: int) -> tuple[datetime, int]:
        """A sort key: the time of a line, then its number; excerpts of one utterance have the same."""
        return self.rows[index].at, self.rows[index].number


def rank_lines(rows: Sequence[Row], scores: Floats) -> RankedLines:
    """All lines in the order of their scores, which count to six digits."""
    order = sorted(range(len(rows)), key=lambda index: (-round(float(scores[index]), 6), index))
    return RankedLines(rows, scores, order)


def plain(row: Row) -> str:
    """The text of a row, for comparisons: two rows may say the same in another case or with other spaces."""
    return fold(row.text).casefold()
