"""Candidate utterances, their features, and the features of their neighbours."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Line, Source, Strategy
from eunoe.schemas.memory import Segment
from eunoe.workers.respond.context import REPLY_MARK, Row, line_row
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens

Floats = NDArray[np.float64]
AnyFloats = TypeVar("AnyFloats", NDArray[np.float32], NDArray[np.float64])

WINDOW = 2
"""Utterances before and after one whose features are added to it."""

NUMBER_AND_COLON = 2
"""Tokens of a row besides its speaker and text."""

_NUMBERS = frozenset(
    """
    one two three four five six seven eight nine ten eleven twelve dozen twenty thirty hundred thousand couple several
    few once twice first second third
    """.split()  # noqa: SIM905 - a table of words
)
_TIMES = frozenset(
    """
    yesterday today tonight tomorrow ago last next recently since week weeks weekend month months year years day days
    morning evening monday tuesday wednesday thursday friday saturday sunday january february march april june july
    august september october november december summer winter spring autumn birthday anniversary
    """.split()  # noqa: SIM905 - a table of words
)
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_CAPITAL = re.compile(r"(?<=[a-z,;] )(?!I['’])[A-Z][\w'-]+")
_OWN = re.compile(r"\b(?:I|I['’]\w+|my|me|we|our|us)\b")
_REACTION = re.compile(
    r"^\W*(?:thanks|thank you|wow|cool|awesome|great|that['’]s|sounds|yeah|glad)\b",
    re.IGNORECASE,
)
MAX_NAMES = 3
"""Maximum of names counted in one utterance."""


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """The features of a text that depend neither on its speaker nor on the question."""

    counts: Mapping[str, int]
    """Term → count."""
    length: int
    """Number of terms."""
    tokens: int
    asks: bool
    has_number: bool
    has_time: bool
    names: int
    """Number of names besides the speakers', at most `MAX_NAMES`."""
    is_own: bool
    """Whether it is in the first person."""
    reacts: bool
    """Whether it begins with a reaction to the previous utterance."""


def text_features(text: str, speakers: Sequence[str]) -> TextFeatures:
    """Read the features of a text; the speakers' names are not terms."""
    counts = Counter(terms(text, drop=speakers))
    words = set(_WORD.findall(text.lower()))
    has_digit = _DIGIT.search(text) is not None
    names = set(_CAPITAL.findall(text)).difference(part for name in speakers for part in name.split())
    return TextFeatures(
        counts=counts,
        length=counts.total(),
        tokens=count_tokens(text),
        asks=text.rstrip().endswith("?"),
        has_number=has_digit or not words.isdisjoint(_NUMBERS),
        has_time=has_digit or not words.isdisjoint(_TIMES),
        names=min(len(names), MAX_NAMES),
        is_own=_OWN.search(text) is not None,
        reacts=_REACTION.match(text) is not None,
    )


@dataclass(frozen=True, slots=True)
class CandidateTurn:
    """An utterance of a segment, with all that does not depend on the question."""

    line: Line
    segment_id: str
    order: tuple[int, int, int]
    """Session, index of the segment in it, index in the segment."""
    features: TextFeatures
    tokens: int
    """Tokens of its row."""

    @property
    def row(self) -> Row:
        """Its row in a prompt, not yet numbered."""
        return line_row(0, self.line)

    @property
    def source(self) -> Source:
        """Its source, not yet scored."""
        # hundreds are scored and few shown: built on demand, and not validated because every part already was
        return Source.model_construct(
            kind=Strategy.SEGMENT,
            id=self.segment_id,
            session=self.session,
            at=self.line.at,
            utterance_ids=(self.line.utterance_id,),
            score=0.0,
        )

    @property
    def session(self) -> int:
        """The number of its session."""
        return self.order[0]


def line_turns(segment: Segment, features: Mapping[str, TextFeatures]) -> tuple[CandidateTurn, ...]:
    """The utterances of a segment; ``features`` has an entry for each of their texts."""
    return tuple(_turn(line, segment, place, features[line.text]) for place, line in enumerate(segment.lines))


ASKS, TIME, NUMBER, NAMES, OWN, REACTS, SALIENCE, TOKENS, LENGTH = COLUMNS = range(9)
"""Columns of `feature_matrix`: is a question, has a time, has a number, number of names, first person, reacts,
salience, tokens of the row, number of terms."""


def feature_matrix(turns: Sequence[CandidateTurn], salience: Sequence[float]) -> Floats:
    """The features of each utterance, shape (n, 9); see `ASKS` and the others."""
    rows = [
        (
            one.asks,
            one.has_time,
            one.has_number,
            one.names,
            one.is_own,
            one.reacts,
            line_salience,
            max(turn.tokens, 1),
            one.length,
        )
        for turn, line_salience in zip(turns, salience, strict=True)
        for one in (turn.features,)
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))


def _turn(line: Line, segment: Segment, place: int, features: TextFeatures) -> CandidateTurn:
    mark = 0 if line.is_evidence else count_tokens(REPLY_MARK)
    tokens = features.tokens + count_tokens(line.speaker) + NUMBER_AND_COLON + mark
    return CandidateTurn(line, segment.segment_id, (segment.session, segment.index, place), features, tokens)


def positions(segments: Sequence[Segment]) -> NDArray[np.int64]:
    """The positions of the segments' utterances on one axis; the segments come in log order.

    Adjacent segments of a session are contiguous; between others `WINDOW` positions stay empty, so that unrelated
    utterances are not neighbours.
    """
    found: list[int] = []
    free = WINDOW
    before: tuple[int, int] | None = None
    for segment in segments:
        if before is not None and before != (segment.session, segment.index - 1):
            free += WINDOW
        found += range(free, free + len(segment.lines))
        free += len(segment.lines)
        before = (segment.session, segment.index)
    return np.asarray(found, dtype=np.int64)


def add_neighbours(values: AnyFloats, where: NDArray[np.int64], weights: Sequence[float]) -> AnyFloats:
    """Add to each row its neighbours' rows, weighted; ``weights`` run from -`WINDOW` to `WINDOW`.

    ``values`` and the result have shape (n, …).
    """
    free = int(where[-1]) + 1 + WINDOW if len(where) else 0
    wide = np.zeros((free, *values.shape[1:]), dtype=values.dtype)
    wide[where] = values
    blended = np.zeros_like(values)
    for offset, weight in enumerate(weights, -WINDOW):
        blended += values.dtype.type(weight) * wide[where + offset]
    return blended
