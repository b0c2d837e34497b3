"""Caches features and vectors of texts and segments, which do not depend on the question."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import Embedder
from eunoe.workers.compress.reads import LineFeatures
from eunoe.workers.models.vectors import quantized
from eunoe.workers.respond.passages import (
    SENSE_AROUND,
    WINDOW,
    CandidatePassage,
    Floats,
    TextFeatures,
    add_neighbours,
    feature_matrix,
    segment_passages,
    text_features,
)
from eunoe.workers.text.caches import CacheBySize, total_chars
from eunoe.workers.text.names import without_names
from eunoe.workers.text.passages import cut_passages

TEXT_SHARE = 0.1
"""Share of the vectors of texts of the cache's bytes; of 28 MB about 2,000 texts."""
_TERM_BYTES = 60
"""Of an occurrence of a term in a passage."""
_OBJECT_BYTES = 400
"""Of everything else of a passage or a text."""

Postings = Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
"""Term → the passages of a segment that contain it, and how often they do."""


@dataclass(frozen=True, slots=True)
class SegmentFeatures:
    """A segment with the features and vectors of its passages."""

    segment: Segment
    passages: tuple[CandidatePassage, ...]
    vectors: NDArray[np.float32]
    """Shape (passages, dimensions), unit rows."""
    features: Floats
    """See `eunoe.workers.respond.passages.feature_matrix`."""
    postings: Postings
    speakers: NDArray[np.str_]
    """The speaker of each passage."""
    pieces: NDArray[np.int64]
    """Number of passages of each utterance."""
    around: NDArray[np.float32]
    """Shape (passages,): length of each vector with its neighbours' added, see `SENSE_AROUND`."""


@dataclass(slots=True)
class FeatureCache:
    """A least-recently-used cache, keyed by text and speakers' names."""

    embedder: Embedder
    max_bytes: int
    """The most that it holds; features of segments, vectors and terms, take about 5 kB a passage."""
    _texts: CacheBySize[bytes, NDArray[np.float32]] = field(init=False)
    _segments: CacheBySize[tuple[str, tuple[str, ...]], SegmentFeatures] = field(init=False)

    def __post_init__(self) -> None:
        """Begin empty."""
        texts = int(TEXT_SHARE * self.max_bytes)
        self._texts = CacheBySize(texts, "text vectors")
        self._segments = CacheBySize(self.max_bytes - texts, "segment features")

    def missing(self, segments: Sequence[Segment], speakers: tuple[str, ...]) -> list[Segment]:
        """The segments not in the cache; a cached segment is recognised by object identity."""
        return [segment for segment in segments if self._known(segment, speakers) is None]

    async def read_segments(
        self, segments: Sequence[Segment], speakers: tuple[str, ...], stored: Mapping[str, LineFeatures]
    ) -> list[SegmentFeatures]:
        """The features of segments, in their order; ``stored`` has vectors computed when they were stored.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        found = {segment.segment_id: self._known(segment, speakers) for segment in segments}
        fresh = [segment for segment in segments if found[segment.segment_id] is None]
        cut = {segment.segment_id: _cut(segment) for segment in fresh}
        vectors = {id_: one.unpacked() for id_, one in stored.items() if self._fits(one, cut.get(id_, ()), speakers)}
        vectors |= await self._embedded([one for one in fresh if one.segment_id not in vectors], cut, speakers)
        for segment in fresh:
            one = _read(segment, cut[segment.segment_id], vectors[segment.segment_id], speakers)
            found[segment.segment_id] = one
            self._segments.put((segment.segment_id, speakers), one, _size_of_segment(one))
        return [features for segment in segments if (features := found[segment.segment_id]) is not None]

    def _known(self, segment: Segment, speakers: tuple[str, ...]) -> SegmentFeatures | None:
        found = self._segments.get((segment.segment_id, speakers))
        return found if found is not None and found.segment is segment else None

    def _fits(self, stored: LineFeatures, passages: Sequence[CandidatePassage], speakers: tuple[str, ...]) -> bool:
        return (stored.embedder, stored.speakers, stored.passages) == (self.embedder.name, speakers, len(passages))

    async def _embedded(
        self,
        segments: Sequence[Segment],
        cut: Mapping[str, tuple[CandidatePassage, ...]],
        speakers: Sequence[str],
    ) -> dict[str, NDArray[np.float32]]:
        """Segment id → the vectors of its passages, in the precision in which they are stored."""
        texts = [without_names(one.text, speakers) for segment in segments for one in cut[segment.segment_id]]
        vectors = await self.embedder.embed(texts) if texts else np.zeros((0, self.embedder.dimensions), np.float32)
        found, start = {}, 0
        for segment in segments:
            end = start + len(cut[segment.segment_id])
            found[segment.segment_id] = quantized(vectors[start:end])
            start = end
        return found

    async def read_vectors(self, texts: Iterable[str], speakers: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Text → its vector of shape (dimensions,) without the speakers' names.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        names = hashlib.blake2b("\n".join(speakers).encode("utf-8", "surrogatepass"), digest_size=32).digest()
        digests = {text: _digest(names, text) for text in texts}
        known = {digest: read for digest in digests.values() if (read := self._texts.get(digest)) is not None}
        fresh = {digest: text for text, digest in digests.items() if digest not in known}
        if fresh:
            vectors = await self.embedder.embed([without_names(text, speakers) for text in fresh.values()])
            for digest, vector in zip(fresh, vectors, strict=True):
                known[digest] = vector.copy()  # a row of its own: a view would keep the whole batch
                self._texts.put(digest, known[digest], _OBJECT_BYTES + vector.nbytes)
        return {text: known[digest] for text, digest in digests.items()}


def _cut(segment: Segment) -> tuple[CandidatePassage, ...]:
    return segment_passages(segment, [cut_passages(line.text) for line in segment.lines])


def _read(
    segment: Segment, passages: tuple[CandidatePassage, ...], vectors: NDArray[np.float32], speakers: Sequence[str]
) -> SegmentFeatures:
    features = [text_features(one.text, speakers) for one in passages]
    return SegmentFeatures(
        segment,
        passages,
        vectors,
        feature_matrix(passages, features),
        _postings(features),
        np.asarray([one.line.speaker for one in passages], dtype=np.str_),
        np.asarray([len(one.spans) for one in passages if one.piece == 0], dtype=np.int64),
        np.linalg.norm(add_neighbours(vectors, np.arange(len(vectors)) + WINDOW, SENSE_AROUND), axis=1),
    )


def _postings(features: Sequence[TextFeatures]) -> Postings:
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, one in enumerate(features):
        for term, count in one.counts.items():
            found[term].append((place, count))
    return {
        term: (tuple(place for place, _ in rows), tuple(count for _, count in rows)) for term, rows in found.items()
    }


def _size_of_segment(read: SegmentFeatures) -> int:
    chars = total_chars(line.text for line in read.segment.lines)
    terms = sum(len(places) for places, _ in read.postings.values())
    own = _OBJECT_BYTES * (len(read.passages) + len(read.postings)) + _TERM_BYTES * terms
    return read.vectors.nbytes + read.features.nbytes + read.speakers.nbytes + chars + own


def _digest(names: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=names, digest_size=16).digest()
