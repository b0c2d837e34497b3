"""The candidate passages of a question, and their features as arrays over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.workers.models.local.vectors import unit_of_levels
from eunoe.workers.respond.recall.feature_cache import SegmentFeatures
from eunoe.workers.respond.recall.packed_segments import JoinedPassages, PackedSegment
from eunoe.workers.respond.recall.passages import COLUMNS, WINDOW, CandidatePassage, Floats, positions


@dataclass(frozen=True)
class ScoringInput:
    """The candidate passages in log order, with their features."""

    segments: Sequence[SegmentFeatures]
    memory: Mapping[str, float]
    """Utterance id → best cosine to the question of the found memories that rest on it."""

    @cached_property
    def passages(self) -> Sequence[CandidatePassage]:
        """All passages, each made when somebody asks for it: hundreds are scored and few shown."""
        return JoinedPassages([one.passages for one in self.segments])

    @cached_property
    def utterance_ids(self) -> list[str]:
        """The ids of the utterances in log order."""
        return [id_ for one in self.segments for id_ in one.segment.utterance_ids]

    @cached_property
    def orders(self) -> list[tuple[int, int, int]]:
        """The place of each utterance: session, index of the segment in it, index in the segment."""
        return [
            (one.segment.session, one.segment.index, place)
            for one in self.segments
            for place in range(len(one.segment.utterance_ids))
        ]

    @cached_property
    def packed(self) -> list[PackedSegment]:
        """The kept part of each segment; arrays are joined before they are widened, which takes a call for each."""
        return [one.packed for one in self.segments]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of passages of each segment."""
        return [one.passages for one in self.packed]

    @cached_property
    def pieces(self) -> NDArray[np.int64]:
        """The number of passages of each utterance."""
        return _joined([one.pieces for one in self.packed], np.int32).astype(np.int64)

    @cached_property
    def utterances(self) -> NDArray[np.int64]:
        """The place of each passage's utterance among `utterance_ids`."""
        return np.repeat(np.arange(len(self.pieces)), self.pieces)

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each passage's text."""
        return _joined([one.tokens for one in self.packed], np.int32).astype(np.int64)

    @cached_property
    def where(self) -> NDArray[np.int64]:
        """See `eunoe.workers.respond.recall.passages.positions`."""
        return positions([(one.session, one.index, one.passages) for one in self.packed])

    @cached_property
    def apart(self) -> NDArray[np.int64]:
        """The same positions, with empty ones between all segments."""
        return np.arange(sum(self.sizes)) + WINDOW * np.repeat(np.arange(1, len(self.sizes) + 1), self.sizes)

    @cached_property
    def lengths_around(self) -> Floats:
        """The length of each vector with its neighbours' added."""
        return np.maximum(_joined([one.around for one in self.packed], np.float32).astype(np.float64), 1e-9)

    @cached_property
    def features(self) -> Floats:
        """Shape (n, 16): see `eunoe.workers.respond.recall.passages.feature_matrix`."""
        return _joined([one.features for one in self.packed], np.float32, len(COLUMNS)).astype(np.float64)

    @cached_property
    def speakers(self) -> NDArray[np.str_]:
        """The speaker of each passage."""
        names = [name for one in self.packed for name in one.names]
        begins = accumulate((len(one.names) for one in self.packed), initial=0)
        places = [begin + one.speakers.astype(np.int64) for begin, one in zip(begins, self.packed, strict=False)]
        found: NDArray[np.str_] = np.asarray(names, dtype=np.str_)[_joined(places, np.int64)]
        return found

    @cached_property
    def sessions(self) -> NDArray[np.int64]:
        """The session of each passage."""
        return np.repeat([one.session for one in self.packed], self.sizes)

    def cosines(self, vector: NDArray[np.float32]) -> Floats:
        """The cosine of each passage to a unit vector, shape (n,)."""
        levels = _joined([one.levels for one in self.packed], np.int8, len(vector))
        return (unit_of_levels(levels) @ vector).astype(np.float64)

    def counts(self, words: Sequence[str]) -> Floats:
        """Counts of the words in each passage, shape (n, words)."""
        found = np.zeros((sum(self.sizes), len(words)))
        hashes = np.asarray(list(map(hash, words)), dtype=np.int64)
        for start, one in zip(accumulate(self.sizes, initial=0), self.packed, strict=False):
            for column, places, counts in one.postings.of_terms(hashes):
                found[start + places.astype(np.int64), column] = counts
        return found


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic], *columns: int) -> NDArray[Any]:
    """The arrays as one, of this kind also where there are none."""
    return np.concatenate([np.zeros((0, *columns), dtype=kind), *parts])
