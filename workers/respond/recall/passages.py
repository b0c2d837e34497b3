"""Candidate passages, their features, and the features of their neighbours."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.events import Line, Strategy
from eunoe.schemas.replies import Source
from eunoe.workers.respond.context import REPLY_MARK
from eunoe.workers.text.intent import instructs, states_self, wishes
from eunoe.workers.text.passages import PassageSpan
from eunoe.workers.text.printed_names import printed_name
from eunoe.workers.text.terms import terms
from eunoe.workers.text.tokens import count_tokens

Floats = NDArray[np.float64]
AnyFloats = TypeVar("AnyFloats", NDArray[np.float32], NDArray[np.float64])

WINDOW = 2
"""Passages before and after one whose features are added to it."""
SENSE_AROUND = (0.25, 0.5, 1.0, 0.5, 0.25)
"""Weights of the vectors of the two passages before in the segment, the passage itself and the two after."""

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
_ASCII_WORD = re.compile("[A-Za-z0-9_]+")
"""The same of ASCII, found in half the time."""
_DIGIT = re.compile(r"\d")
_CAPITAL = re.compile(r"(?<=[a-z,;] )(?!I['’])[A-Z][\w'-]+")
_OWN = frozenset({"I", "my", "me", "we", "our", "us"})
_REACTION = re.compile(
    r"^\W*(?:thanks|thank you|wow|cool|awesome|great|that['’]s|sounds|yeah|yes|no|glad|ok|okay|sure|got it|hmm|alright"
    r"|perfect|nice|oh|let['’]s)\b",
    re.IGNORECASE,
)
MAX_NAMES = 3
"""Maximum of names counted in one passage."""


@dataclass(slots=True)  # not frozen, as a passage
class TextFeatures:
    """The features of a text that depend neither on its speaker nor on the question."""

    counts: Mapping[str, int]
    """Term → count."""
    length: int
    """Number of terms."""
    asks: bool
    has_number: bool
    has_time: bool
    names: int
    """Number of names besides the speakers', at most `MAX_NAMES`."""
    is_own: bool
    """Whether it is in the first person."""
    reacts: bool
    """Whether it begins with a reaction to the previous utterance."""
    states: bool
    """Whether it states something of its speaker."""
    wishes: bool
    """Whether it says what its speaker always or never wants."""
    instructs: bool
    """Whether it is an instruction for all replies to come."""


def text_features(text: str, speakers: Sequence[str]) -> TextFeatures:
    """Read the features of a text; the speakers' names are not terms."""
    found = terms(text, drop=speakers)
    written = set((_ASCII_WORD if text.isascii() else _WORD).findall(text))
    # beyond ASCII a letter in lower case may be two characters, one of which is in no word
    words = set(map(str.lower, written)) if text.isascii() else set(_WORD.findall(text.lower()))
    has_digit = _DIGIT.search(text) is not None
    names = set(_CAPITAL.findall(text))
    if names:
        names.difference_update(part for name in speakers for part in name.split())
    return TextFeatures(
        counts=Counter(found),
        length=len(found),
        asks=text.rstrip().endswith("?"),
        has_number=has_digit or not words.isdisjoint(_NUMBERS),
        has_time=has_digit or not words.isdisjoint(_TIMES),
        names=min(len(names), MAX_NAMES),
        is_own=not written.isdisjoint(_OWN),
        reacts=_REACTION.match(text) is not None,
        states=states_self(text, words),
        wishes=wishes(text, words),
        instructs=instructs(text, words),
    )


class StoredLine(NamedTuple):
    """The fields of a stored utterance that its features are made of, not validated again."""

    speaker: str
    text: str
    day: int
    """Ordinal of its day."""
    is_evidence: bool
    """Whether it is no reply of the responder."""


class SegmentLines(Protocol):
    """A segment whose lines are read when somebody asks for them."""

    @property
    def segment_id(self) -> str:
        """Its id."""
        ...

    @property
    def utterance_ids(self) -> Sequence[str]:
        """The ids of its lines."""
        ...

    @property
    def said(self) -> Sequence[StoredLine]:
        """Its lines as they are stored."""
        ...

    def line(self, place: int) -> Line:
        """A line by its place, from 0."""
        ...


@dataclass(slots=True)  # hundreds are made for an ask: one that is frozen takes three times as long
class CandidatePassage:
    """A passage of an utterance of a segment, with its place."""

    segment: SegmentLines = field(compare=False)
    order: tuple[int, int, int]
    """Session, index of the segment in it, index of the utterance in the segment."""
    spans: tuple[PassageSpan, ...]
    """All passages of the utterance."""
    piece: int
    """Its index among them."""
    tokens: int
    """Tokens of its text."""
    line_tokens: int
    """Tokens of the utterance's text."""
    row_tokens: int
    """Tokens of the utterance's row besides its text."""
    day: int
    """Ordinal of the utterance's day."""

    @property
    def line(self) -> Line:
        """Its utterance."""
        return self.segment.line(self.order[2])

    @property
    def said(self) -> StoredLine:
        """Its utterance as it is stored."""
        return self.segment.said[self.order[2]]

    @property
    def segment_id(self) -> str:
        """The id of its segment."""
        return self.segment.segment_id

    @property
    def utterance_id(self) -> str:
        """The id of its utterance."""
        return self.segment.utterance_ids[self.order[2]]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its utterance."""
        return len(self.spans) == 1

    @property
    def text(self) -> str:
        """Its text."""
        span = self.spans[self.piece]
        return self.said.text[span.start : span.end]

    def source(self, score: float = 0.0) -> Source:
        """Its source."""
        # hundreds are scored and few shown: built on demand, and not validated because every part already was
        return Source.model_construct(
            kind=Strategy.SEGMENT,
            id=self.segment_id,
            session=self.session,
            at=self.line.at,
            utterance_ids=(self.utterance_id,),
            score=score,
        )

    @property
    def session(self) -> int:
        """The number of its session."""
        return self.order[0]


def segment_passages(
    stored: SegmentLines, place: tuple[int, int], spans: Sequence[Sequence[PassageSpan]]
) -> tuple[CandidatePassage, ...]:
    """The passages of a segment in order.

    ``place``: session, and index of the segment in it; ``spans`` has those of each of its utterances.
    """
    found: list[CandidatePassage] = []
    names = {name: count_tokens(printed_name(name)) for name in {line.speaker for line in stored.said}}
    for number, (line, own) in enumerate(zip(stored.said, spans, strict=True)):
        mark = 0 if line.is_evidence else count_tokens(REPLY_MARK)
        row = names[line.speaker] + NUMBER_AND_COLON + mark
        order, whole = (*place, number), sum(span.tokens for span in own)
        found += (
            CandidatePassage(stored, order, tuple(own), piece, span.tokens, whole, row, line.day)
            for piece, span in enumerate(own)
        )
    return tuple(found)


COLUMNS = range(16)
(ASKS, TIME, NUMBER, NAMES, OWN, REACTS, STATES, WISHES, TOKENS, LINE_TOKENS, LENGTH, REPLY, DAY) = COLUMNS[:13]
INSTRUCTS, OPENS, CLOSES = COLUMNS[13:]
"""Columns of `feature_matrix`: is a question, has a time, has a number, number of names, first person, reacts, states
something of its speaker, is a standing wish, tokens of its row if it stands alone, tokens of the utterance, number of
terms, is the responder's own, ordinal of the day, is a standing instruction, begins its utterance, ends a long one."""


def feature_matrix(passages: Sequence[CandidatePassage], features: Sequence[TextFeatures]) -> Floats:
    """The features of each passage, shape (n, 16); see `ASKS` and the others."""
    rows = [
        (
            one.asks,
            one.has_time,
            one.has_number,
            one.names,
            one.is_own,
            one.reacts,
            one.states,
            one.wishes,
            max(passage.tokens + passage.row_tokens, 1),
            max(passage.line_tokens, 1),
            one.length,
            not passage.said.is_evidence,
            passage.day,
            one.instructs,
            passage.piece == 0,
            0 < passage.piece == len(passage.spans) - 1,
        )
        for passage, one in zip(passages, features, strict=True)
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))


def positions(places: Sequence[tuple[int, int, int]]) -> NDArray[np.int64]:
    """The positions of the segments' passages on one axis; ``places``: session, index and passages of each segment.

    The segments come in log order. Adjacent segments of a session are contiguous; between others `WINDOW` positions
    stay empty, so that unrelated passages are not neighbours.
    """
    found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    free = WINDOW
    before: tuple[int, int] | None = None
    for session, index, length in places:
        if before is not None and before != (session, index - 1):
            free += WINDOW
        found.append(np.arange(free, free + length))
        free += length
        before = (session, index)
    return np.concatenate(found)


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
