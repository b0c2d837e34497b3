"""Segments with their features in few bytes: a conversation of 10,000 memories fits into one process's cache."""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from eunoe.schemas.events import Line
from eunoe.workers.respond.recall.passages import DAY, CandidatePassage, StoredLine, TextFeatures, feature_matrix
from eunoe.workers.text.passages import PassageSpan

_DATE_CHARS = len("2026-01-02")
_ARRAY_BYTES = 120
"""Of an array beside its numbers."""
_TEXT_BYTES = 57
"""Of a text beside its characters, its place in a tuple included."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages of a segment that contain a term, and how often.

    Terms are known by their hashes of 64 bits: among the terms of a segment two are the same once in 10¹⁵ segments.
    """

    terms: NDArray[np.int64]
    """The hashes, ascending."""
    ends: NDArray[np.uint32]
    """The end of each term's passages among ``places``."""
    places: NDArray[Any]
    counts: NDArray[Any]

    @classmethod
    def of(cls, features: Sequence[TextFeatures]) -> "Postings":
        """Of the passages of a segment; ``features`` in their order."""
        found = [one.counts for one in features]
        hashes = np.asarray(list(map(hash, chain.from_iterable(found))), dtype=np.int64)
        counts = np.asarray(list(chain.from_iterable(one.values() for one in found)), dtype=np.int64)
        places = np.repeat(np.arange(len(found)), np.asarray(list(map(len, found)), dtype=np.int64))
        order = np.lexsort((counts, places, hashes))
        terms, sizes = np.unique(hashes[order], return_counts=True)
        return cls(terms, np.cumsum(sizes).astype(np.uint32), _narrow(places[order]), _narrow(counts[order]))

    def of_terms(self, hashes: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """The place of each term among ``hashes`` that any passage has, with these passages and its counts there."""
        if not len(self.terms):
            return
        found = self.terms.searchsorted(hashes)
        is_there = self.terms.take(found, mode="clip") == hashes
        for place in np.flatnonzero(is_there).tolist():
            at = int(found[place])
            begin, end = 0 if at == 0 else int(self.ends[at - 1]), int(self.ends[at])
            yield place, self.places[begin:end], self.counts[begin:end]


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """The part of a segment that does not depend on a question; its text is kept elsewhere."""

    segment_id: str
    session: int
    index: int
    utterance_ids: tuple[str, ...]
    levels: NDArray[np.int8]
    """See `eunoe.workers.models.local.vectors.levels`; shape (passages, dimensions)."""
    around: NDArray[np.float32]
    features: NDArray[np.float32]
    """See `eunoe.workers.respond.recall.passages.feature_matrix`: whole numbers, of which float32 keeps each."""
    spans: NDArray[np.int32]
    """Shape (passages, 4): start, end, tokens, and whether it is a heading."""
    pieces: NDArray[np.int32]
    """Number of passages of each line."""
    lines: NDArray[np.int32]
    """Shape (lines, 2): tokens of the line's text, and of its row besides."""
    names: tuple[str, ...]
    """The speakers of the lines."""
    speakers: NDArray[Any]
    """The place of each passage's speaker in ``names``."""
    postings: Postings

    @property
    def tokens(self) -> NDArray[np.int32]:
        """Tokens of each passage's text."""
        return self.spans[:, 2]

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        arrays = [*_arrays_of(self), *_arrays_of(self.postings)]
        texts = (self.segment_id, *self.utterance_ids, *self.names)
        return sum(one.nbytes + _ARRAY_BYTES for one in arrays) + sum(len(text) + _TEXT_BYTES for text in texts)

    @property
    def passages(self) -> int:
        """The number of its passages."""
        return len(self.spans)


def pack_segment(
    segment: "StoredSegment",
    passages: Sequence[CandidatePassage],
    features: Sequence[TextFeatures],
    levels: NDArray[np.int8],
    around: NDArray[np.float32],
) -> PackedSegment:
    """A segment with the features and vectors of its ``passages``."""
    firsts = [one for one in passages if one.piece == 0]
    names = tuple(dict.fromkeys(line.speaker for line in segment.said))
    spans = [one.spans[one.piece] for one in passages]
    return PackedSegment(
        segment.segment_id,
        segment.session,
        segment.index,
        segment.utterance_ids,
        levels,
        around,
        feature_matrix(passages, features).astype(np.float32),
        np.asarray([(one.start, one.end, one.tokens, one.opens) for one in spans], dtype=np.int32).reshape(-1, 4),
        np.asarray([len(one.spans) for one in firsts], dtype=np.int32),
        np.asarray([(one.line_tokens, one.row_tokens) for one in firsts], dtype=np.int32).reshape(-1, 2),
        names,
        _narrow(np.asarray([names.index(one.said.speaker) for one in passages], dtype=np.int64)),
        Postings.of(features),
    )


class StoredSegment:
    """A segment as it is stored: its text, of which a line is read when somebody asks for it."""

    def __init__(self, text: str, digest: bytes, packed: PackedSegment | None) -> None:
        """``digest``: of the text and the names of the speakers. ``packed``: where it is known."""
        self.digest = digest
        self.packed = packed
        self._text = text

        self._lines: dict[int, Line] = {}
        self.segment_id: str = self._raw["segment_id"] if packed is None else packed.segment_id
        self.session: int = self._raw["session"] if packed is None else packed.session
        self.index: int = self._raw["index"] if packed is None else packed.index
        self.utterance_ids: tuple[str, ...] = self._ids() if packed is None else packed.utterance_ids

    def _ids(self) -> tuple[str, ...]:
        return tuple(line["utterance_id"] for line in self._raw["lines"])

    @cached_property
    def _raw(self) -> dict[str, Any]:
        """Its fields as they are stored: validated when they were written, and many are found that are not shown."""
        raw: dict[str, Any] = orjson.loads(self._text)
        return raw

    @cached_property
    def said(self) -> tuple[StoredLine, ...]:
        """Its lines, not validated."""
        return tuple(map(_stored_line, self._raw["lines"]))

    def line(self, place: int) -> Line:
        """A line by its place, from 0."""
        if (known := self._lines.get(place)) is not None:
            return known
        return self._lines.setdefault(place, Line.model_validate(self._raw["lines"][place]))


def _stored_line(raw: Mapping[str, Any]) -> StoredLine:
    day = date.fromisoformat(raw["at"][:_DATE_CHARS]).toordinal()  # by the clock of who spoke
    return StoredLine(raw["speaker"], raw["text"], day, raw.get("reply_id") is None)


class LazyPassages(Sequence[CandidatePassage]):
    """Passages that are made, or looked up, when somebody asks for them."""

    @overload
    def __getitem__(self, place: int) -> CandidatePassage: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[CandidatePassage]: ...

    def __getitem__(self, place: int | slice) -> CandidatePassage | Sequence[CandidatePassage]:
        """The passage at a place from 0, or those of a slice; raises ``IndexError``."""
        if isinstance(place, slice):
            return [self.at(one) for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self.at(place)

    @abstractmethod
    def at(self, place: int) -> CandidatePassage:
        """The passage at a place from 0, which must be there."""


class SegmentPassages(LazyPassages):
    """The passages of a stored segment, each made when somebody asks for it."""

    def __init__(self, stored: StoredSegment, packed: PackedSegment) -> None:
        self._stored = stored
        self._packed = packed
        self._spans: dict[int, tuple[PassageSpan, ...]] = {}
        """Line → its passages: a long one has hundreds, many of which are looked at."""

    def __len__(self) -> int:
        """The number of passages."""
        return self._packed.passages

    def at(self, place: int) -> CandidatePassage:
        """The passage at a place from 0, which must be there."""
        packed = self._packed
        line = bisect_right(self._begins, place) - 1
        tokens, row_tokens = packed.lines[line].tolist()
        own = self._spans.get(line) or self._spans_of(line)
        piece = place - self._begins[line]
        order, day = (packed.session, packed.index, line), int(packed.features[place, DAY])
        return CandidatePassage(self._stored, order, own, piece, own[piece].tokens, tokens, row_tokens, day)

    @cached_property
    def _begins(self) -> list[int]:
        """The first passage of each line."""
        return [0, *accumulate(self._packed.pieces[:-1].tolist())]

    def _spans_of(self, line: int) -> tuple[PassageSpan, ...]:
        begin = self._begins[line]
        rows = self._packed.spans[begin : begin + int(self._packed.pieces[line])].tolist()
        found = self._spans[line] = tuple(
            [PassageSpan(start, stop, cost, opens == 1) for start, stop, cost, opens in rows]
        )
        return found

    def __iter__(self) -> Iterator[CandidatePassage]:
        """All passages in order."""
        return map(self.at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether the other has equal passages."""
        return isinstance(other, SegmentPassages) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class JoinedPassages(LazyPassages):
    """The passages of several segments as one sequence."""

    def __init__(self, parts: Sequence[Sequence[CandidatePassage]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        """The number of passages."""
        return self._ends[-1] if self._ends else 0

    def at(self, place: int) -> CandidatePassage:
        """The passage at a place from 0, which must be there."""
        part = bisect_right(self._ends, place)
        return self._parts[part][place - (self._ends[part - 1] if part else 0)]


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The numbers, none below 0, in the fewest bytes."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _arrays_of(packed: object) -> list[NDArray[Any]]:
    values = (getattr(packed, one.name) for one in fields(packed))  # type: ignore[arg-type]
    return [value for value in values if isinstance(value, np.ndarray)]
