"""Caches features and vectors of texts and segments, which do not depend on the question."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.model_ports import Embedder
from eunoe.workers.compress.reads import LineFeatures
from eunoe.workers.models.local.vectors import levels, unit_of_levels
from eunoe.workers.respond.recall.packed_segments import PackedSegment, SegmentPassages, StoredSegment, pack_segment
from eunoe.workers.respond.recall.passages import (
    SENSE_AROUND,
    WINDOW,
    CandidatePassage,
    add_neighbours,
    segment_passages,
    text_features,
)
from eunoe.workers.text.caches import CacheBySize
from eunoe.workers.text.names import without_names
from eunoe.workers.text.passages import cut_passages

TEXT_SHARE = 0.1
"""Share of the vectors of texts of the cache's bytes; of 28 MB about 2,000 texts."""
_OBJECT_BYTES = 400
"""Of a text beside its vector."""


class SegmentFeatures(NamedTuple):
    """A segment, whose text is known, with what is kept of it: features and vectors of its passages."""

    segment: StoredSegment
    packed: PackedSegment

    @property
    def passages(self) -> SegmentPassages:
        """Its passages, each made when somebody asks for it."""
        return SegmentPassages(self.segment, self.packed)


@dataclass(slots=True)
class FeatureCache:
    """A least-recently-used cache, keyed by the digest of a text and of the speakers' names."""

    embedder: Embedder
    max_bytes: int
    """The most that it holds; features of segments, vectors and terms, take about 0.7 kB a passage."""
    _texts: CacheBySize[bytes, NDArray[np.float32]] = field(init=False)
    _segments: CacheBySize[bytes, PackedSegment] = field(init=False)

    def __post_init__(self) -> None:
        """Begin empty."""
        texts = int(TEXT_SHARE * self.max_bytes)
        self._texts = CacheBySize(texts, "text vectors")
        self._segments = CacheBySize(self.max_bytes - texts, "segment features")

    def stored(self, text: str, speakers: Sequence[str]) -> StoredSegment:
        """A stored segment by its text, with what is kept of it."""
        digest = _digest(_digest_of_names(speakers), text)
        return StoredSegment(text, digest, self._segments.get(digest))

    def missing(self, segments: Sequence[StoredSegment]) -> list[StoredSegment]:
        """The segments that are not in the cache."""
        return [segment for segment in segments if segment.packed is None]

    async def read_segments(
        self, segments: Sequence[StoredSegment], speakers: tuple[str, ...], stored: Mapping[str, LineFeatures]
    ) -> list[SegmentFeatures]:
        """The features of segments, in their order; ``stored`` has vectors computed when they were stored.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        fresh = self.missing(segments)
        cut = {one.segment_id: _cut(one) for one in fresh}
        read = {id_: one.rows() for id_, one in stored.items() if self._fits(one, cut.get(id_, ()), speakers)}
        read |= await self._embedded([one for one in fresh if one.segment_id not in read], cut, speakers)
        for one in fresh:
            one.packed = _packed(one, cut[one.segment_id], read[one.segment_id], speakers)
            self._segments.put(one.digest, one.packed, one.packed.size)
        return [SegmentFeatures(one, one.packed) for one in segments if one.packed is not None]

    def _fits(self, stored: LineFeatures, passages: Sequence[CandidatePassage], speakers: tuple[str, ...]) -> bool:
        return (stored.embedder, stored.speakers, stored.passages) == (self.embedder.name, speakers, len(passages))

    async def _embedded(
        self,
        segments: Sequence[StoredSegment],
        cut: Mapping[str, tuple[CandidatePassage, ...]],
        speakers: Sequence[str],
    ) -> dict[str, NDArray[np.int8]]:
        """Segment id → the vectors of its passages, in the precision in which they are stored."""
        texts = [without_names(one.text, speakers) for segment in segments for one in cut[segment.segment_id]]
        vectors = await self.embedder.embed(texts) if texts else np.zeros((0, self.embedder.dimensions), np.float32)
        found, start = {}, 0
        for segment in segments:
            end = start + len(cut[segment.segment_id])
            found[segment.segment_id] = levels(vectors[start:end])
            start = end
        return found

    async def read_vectors(self, texts: Iterable[str], speakers: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Text → its vector of shape (dimensions,) without the speakers' names.

        Raises `Unavailable` if the embedder's endpoint is unavailable.
        """
        names = _digest_of_names(speakers)
        digests = {text: _digest(names, text) for text in texts}
        known = {digest: read for digest in digests.values() if (read := self._texts.get(digest)) is not None}
        fresh = {digest: text for text, digest in digests.items() if digest not in known}
        if fresh:
            vectors = await self.embedder.embed([without_names(text, speakers) for text in fresh.values()])
            for digest, vector in zip(fresh, vectors, strict=True):
                known[digest] = vector.copy()  # a row of its own: a view would keep the whole batch
                self._texts.put(digest, known[digest], _OBJECT_BYTES + vector.nbytes)
        return {text: known[digest] for text, digest in digests.items()}


def _cut(stored: StoredSegment) -> tuple[CandidatePassage, ...]:
    spans = [cut_passages(line.text) for line in stored.said]
    return segment_passages(stored, (stored.session, stored.index), spans)


def _packed(
    segment: StoredSegment, passages: tuple[CandidatePassage, ...], rows: NDArray[np.int8], speakers: Sequence[str]
) -> PackedSegment:
    features = [text_features(one.text, speakers) for one in passages]
    near = add_neighbours(unit_of_levels(rows), np.arange(len(rows)) + WINDOW, SENSE_AROUND)
    return pack_segment(segment, passages, features, rows, np.linalg.norm(near, axis=1))


def _digest_of_names(speakers: Sequence[str]) -> bytes:
    return hashlib.blake2b("\n".join(speakers).encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _digest(names: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=names, digest_size=16).digest()
