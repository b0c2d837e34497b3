"""Candidates for a context, each with its score: passages of utterances, and units that are shown whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.relations import Relation
from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import Row, write_row
from eunoe.workers.respond.recall.passages import CandidatePassage
from eunoe.workers.text.tokens import count_tokens

Order = tuple[int, int, int, int]
"""Session, segment in it, place in the segment, and rank at one place."""


@dataclass(frozen=True, slots=True)
class PackedUnit:
    """A candidate that is shown or left out as a whole."""

    score: float
    order: Order
    rows: tuple[Row, ...]
    source: Source
    tokens: int
    """Tokens of its rows, without a day heading."""
    relations: tuple[Relation, ...] = ()
    """The relations between the rows of a timeline."""
    notes: tuple[str, ...] = ()
    """The notes behind the rows of a timeline, each beginning with its day."""
    is_extract: bool = False
    """Whether its rows repeat only a part of the utterances behind them."""

    @property
    def is_timeline(self) -> bool:
        """Whether it is a timeline, which is printed as a block with its own days."""
        return bool(self.notes)

    @property
    def cites(self) -> frozenset[str]:
        """Ids of the utterances that it shows or rests on."""
        return frozenset(id_ for row in self.rows for id_ in row.cites)

    @property
    def covers(self) -> frozenset[str]:
        """Ids of the utterances that need not be shown besides it."""
        return frozenset() if self.is_extract else self.cites


@dataclass(slots=True)  # not frozen, as a passage
class ScoredPassage:
    """A passage of an utterance, shown beside others of it in one row."""

    score: float
    utterance_id: str
    order: tuple[int, int, int]
    """The place of its utterance: session, segment in it, place in the segment."""
    tokens: int
    """Tokens of its text."""
    passages: Sequence[CandidatePassage]
    """All passages, each made when somebody asks for it."""
    place: int
    """Its place among them."""
    past: str = ""
    """The end of what its utterance says, in words, where that is before the ask."""
    _made: CandidatePassage | None = None

    @property
    def passage(self) -> CandidatePassage:
        """The passage: hundreds are ranked and few of them made."""
        if self._made is None:
            self._made = self.passages[self.place]
        return self._made

    def source(self) -> Source:
        """Its source, not scored."""
        return self.passage.source()


def tokens_of(rows: Sequence[Row]) -> int:
    """Tokens of rows; a row number of any length is one token."""
    return sum(count_tokens(write_row(row)) for row in rows)


Candidate = PackedUnit | ScoredPassage
