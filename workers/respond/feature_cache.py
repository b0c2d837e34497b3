"""Caches features and vectors of texts and segments, which do not depend on the question."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import Embedder
from eunoe.workers.compress.reads import LineFeatures, line_saliences, quantized
from eunoe.workers.respond.turns import CandidateTurn, TextFeatures, feature_matrix, line_turns, text_features
from eunoe.workers.text.caches import CacheBySize, total_chars
from eunoe.workers.text.names import without_names

MAX_TEXT_BYTES = 32 << 20
"""Bytes of the readings of texts; about 16,000 utterances."""
MAX_SEGMENT_BYTES = 128 << 20
"""Bytes of the features of segments, mostly vectors; about 4,000 segments."""
_TERM_BYTES = 150
"""Of a term and its count."""
_OBJECT_BYTES = 400
"""Of everything else of a text."""

TextReading = tuple[TextFeatures, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class SegmentFeatures:
    """A segment with the features and vectors of its utterances."""

    segment: Segment
    turns: tuple[CandidateTurn, ...]
    vectors: NDArray[np.float32]
    """Shape (turns, dimensions), unit rows."""
    features: NDArray[np.float64]
    """See `eunoe.workers.respond.turns.feature_matrix`."""


@dataclass(slots=True)
class FeatureCache:
    """A least-recently-used cache, keyed by text and speakers' names."""

    embedder: Embedder
    _texts: CacheBySize[bytes, TextReading] = field(default_factory=lambda: CacheBySize(MAX_TEXT_BYTES))
    _segments: CacheBySize[tuple[str, tuple[str, ...]], SegmentFeatures] = field(
        default_factory=lambda: CacheBySize(MAX_SEGMENT_BYTES)
    )

    def missing(self, segments: Sequence[Segment], speakers: tuple[str, ...]) -> list[Segment]:
        """The segments not in the cache; a cached segment is recognised by object identity."""
        return [segment for segment in segments if self._known(segment, speakers) is None]

    async def read_segments(
        self, segments: Sequence[Segment], speakers: tuple[str, ...], stored: Mapping[str, LineFeatures]
    ) -> list[SegmentFeatures]:
        """The features of segments, in their order; ``stored`` has features computed when they were stored.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        found = {segment.segment_id: self._known(segment, speakers) for segment in segments}
        fresh = [segment for segment in segments if found[segment.segment_id] is None]
        fitting = {id_: one for id_, one in stored.items() if self._fits(one, speakers)}
        alone = [segment for segment in fresh if segment.segment_id not in fitting]
        texts = dict.fromkeys(line.text for segment in alone for line in segment.lines)
        read = await self.read_texts(texts, speakers) if texts else {}
        for segment in fresh:
            known = fitting.get(segment.segment_id)
            one = self._read(segment, speakers, read) if known is None else _from_stored(segment, speakers, known)
            found[segment.segment_id] = one
            self._segments.put((segment.segment_id, speakers), one, _size_of_segment(one))
        return [features for segment in segments if (features := found[segment.segment_id]) is not None]

    def _known(self, segment: Segment, speakers: tuple[str, ...]) -> SegmentFeatures | None:
        found = self._segments.get((segment.segment_id, speakers))
        return found if found is not None and found.segment is segment else None

    def _fits(self, stored: LineFeatures, speakers: tuple[str, ...]) -> bool:
        return (stored.embedder, stored.speakers) == (self.embedder.name, speakers)

    def _read(self, segment: Segment, speakers: Sequence[str], read: Mapping[str, TextReading]) -> SegmentFeatures:
        vectors = np.zeros((len(segment.lines), self.embedder.dimensions), dtype=np.float32)
        for place, line in enumerate(segment.lines):
            vectors[place] = read[line.text][1]
        turns = line_turns(segment, {text: features for text, (features, _) in read.items()})
        return SegmentFeatures(
            segment, turns, quantized(vectors), feature_matrix(turns, line_saliences(segment.lines, speakers))
        )

    async def read_texts(self, texts: Iterable[str], speakers: Sequence[str]) -> dict[str, TextReading]:
        """Text → its features and its vector of shape (dimensions,), both without the speakers' names.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        names = hashlib.blake2b("\n".join(speakers).encode("utf-8", "surrogatepass"), digest_size=32).digest()
        digests = {text: _digest(names, text) for text in texts}
        known = {digest: read for digest in digests.values() if (read := self._texts.get(digest)) is not None}
        fresh = {digest: text for text, digest in digests.items() if digest not in known}
        if fresh:
            vectors = await self.embedder.embed([without_names(text, speakers) for text in fresh.values()])
            for (digest, text), vector in zip(fresh.items(), vectors, strict=True):
                features = text_features(text, speakers)
                known[digest] = (features, vector.copy())  # a row of its own: a view would keep the whole batch
                self._texts.put(digest, known[digest], _size_of_text(features) + vector.nbytes)
        return {text: known[digest] for text, digest in digests.items()}


def _size_of_text(features: TextFeatures) -> int:
    return _OBJECT_BYTES + _TERM_BYTES * len(features.counts)


def _size_of_segment(read: SegmentFeatures) -> int:
    chars = total_chars(turn.line.text for turn in read.turns)
    return read.vectors.nbytes + read.features.nbytes + chars + sum(_size_of_text(turn.features) for turn in read.turns)


def _from_stored(segment: Segment, speakers: Sequence[str], stored: LineFeatures) -> SegmentFeatures:
    features = {line.text: text_features(line.text, speakers) for line in segment.lines}
    turns = line_turns(segment, features)
    return SegmentFeatures(segment, turns, stored.unpacked(), feature_matrix(turns, stored.worth))


def _digest(names: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=names, digest_size=16).digest()
