"""Utterances as retrieval sees them, each with what its neighbours say. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Line, Source, Strategy
from eunoe.schemas.memory import Segment
from eunoe.workers.respond.context import Row, line_row
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens

Floats = NDArray[np.float64]
AnyFloats = TypeVar("AnyFloats", NDArray[np.float32], NDArray[np.float64])

REACH = 2
"""How many utterances before and after one count with it."""

NUMBER_AND_COLON = 2
"""Tokens of a row beside its speaker and text."""

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
    r"\W*(?:thanks|thank you|wow|cool|awesome|great|that['’]s|sounds|yeah|glad)\b",
    re.IGNORECASE,
)
MOST_NAMES = 3
"""So many names of one utterance count."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What a text says, whoever says it and whatever is asked."""

    counts: Mapping[str, int]
    """Its terms."""
    length: int
    """How many terms."""
    tokens: int
    asks: bool
    has_number: bool
    has_time: bool
    names: int
    """How many names it tells, the speakers' apart, `MOST_NAMES` at most."""
    is_own: bool
    """It tells of who says it."""
    reacts: bool
    """It begins with a reaction to what was said."""


NO_WORDING = Wording({}, 0, 0, False, False, False, 0, False, False)


def read_wording(text: str, speakers: Sequence[str]) -> Wording:
    """Reads a text; the speakers' names are no terms of it."""
    counts = Counter(terms(text, drop=speakers))
    words = set(_WORD.findall(text.lower()))
    has_digit = _DIGIT.search(text) is not None
    names = set(_CAPITAL.findall(text)).difference(part for name in speakers for part in name.split())
    return Wording(
        counts=counts,
        length=counts.total(),
        tokens=count_tokens(text),
        asks=text.rstrip().endswith("?"),
        has_number=has_digit or not words.isdisjoint(_NUMBERS),
        has_time=has_digit or not words.isdisjoint(_TIMES),
        names=min(len(names), MOST_NAMES),
        is_own=_OWN.search(text) is not None,
        reacts=_REACTION.match(text) is not None,
    )


@dataclass(frozen=True, slots=True)
class CandidateTurn:
    """An utterance of a segment, with what does not depend on the question."""

    line: Line
    segment_id: str
    order: tuple[int, int, int]
    """Session, index of the segment in it, place in the segment."""
    wording: Wording
    """`NO_WORDING` for the responder's own words: they keep their place, and say nothing."""
    tokens: int
    """What its row costs."""

    @property
    def row(self) -> Row:
        """As a prompt shows it, yet without a number."""
        return line_row(0, self.line)

    @property
    def source(self) -> Source:
        """As a reply names it, yet without a score."""
        # of hundreds that are looked at few are shown, and nothing in it is new: it is not made before, nor checked
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


def line_turns(segment: Segment, wordings: Mapping[str, Wording]) -> tuple[CandidateTurn, ...]:
    """The utterances of a segment; ``wordings`` holds each text of an evidence line."""
    return tuple(
        _turn(line, segment, place, wordings[line.text] if line.is_evidence else NO_WORDING)
        for place, line in enumerate(segment.lines)
    )


ASKS, TIME, NUMBER, NAMES, OWN, REACTS, WORTH, TOKENS, LENGTH = FACTS = range(9)
"""Columns of `facts_of`: is a question, tells a time, a number, names, of oneself, reacts, its worth; the row's tokens,
the number of terms."""


def facts_of(turns: Sequence[CandidateTurn], worth: Sequence[float]) -> Floats:
    """What scoring asks of every utterance, shape (n, 9); see `ASKS` and the others."""
    rows = [
        (
            one.asks,
            one.has_time,
            one.has_number,
            one.names,
            one.is_own,
            one.reacts,
            tells,
            max(turn.tokens, 1),
            one.length,
        )
        for turn, tells in zip(turns, worth, strict=True)
        for one in (turn.wording,)
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(FACTS))


def _turn(line: Line, segment: Segment, place: int, wording: Wording) -> CandidateTurn:
    tokens = wording.tokens + count_tokens(line.speaker) + NUMBER_AND_COLON
    return CandidateTurn(line, segment.segment_id, (segment.session, segment.index, place), wording, tokens)


def places(segments: Sequence[Segment]) -> NDArray[np.int64]:
    """The places of the segments' utterances on one line; the segments come in log order.

    Segments of a session that touch lie side by side; between all others `REACH` places stay empty, so that nobody
    reaches a neighbour that is none.
    """
    found: list[int] = []
    free = REACH
    before: tuple[int, int] | None = None
    for segment in segments:
        if before is not None and before != (segment.session, segment.index - 1):
            free += REACH
        found += range(free, free + len(segment.lines))
        free += len(segment.lines)
        before = (segment.session, segment.index)
    return np.asarray(found, dtype=np.int64)


def blend_neighbours(values: AnyFloats, where: NDArray[np.int64], weights: Sequence[float]) -> AnyFloats:
    """Each row with its neighbours' rows added by weight; ``weights`` run from -`REACH` to `REACH`.

    ``values`` has shape (n, …); so has the result.
    """
    free = int(where[-1]) + 1 + REACH if len(where) else 0
    wide = np.zeros((free, *values.shape[1:]), dtype=values.dtype)
    wide[where] = values
    blended = np.zeros_like(values)
    for offset, weight in enumerate(weights, -REACH):
        blended += values.dtype.type(weight) * wide[where + offset]
    return blended
