"""Texts read and embedded once: what a text says does not depend on who asks what."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import Embedder
from eunoe.workers.models.names import without_names
from eunoe.workers.respond.turns import Turn, Wording, facts_of, line_turns, read_wording

KEPT = 16_384
"""Texts that are remembered: about 25 MB."""
KEPT_SEGMENTS = 4096
"""Segments that are remembered: about 100 MB, most of it vectors."""

Read = tuple[Wording, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment as retrieval sees it."""

    segment: Segment
    turns: tuple[Turn, ...]
    vectors: NDArray[np.float32]
    """Shape (turns, dimensions), unit rows; zeros for the responder's own words."""
    facts: NDArray[np.float64]
    """See `eunoe.workers.respond.turns.facts_of`."""


@dataclass(slots=True)
class Wordings:
    """A bounded memory of readings, by the digest of text and names: the same text gives the same reading."""

    embedder: Embedder
    _kept: OrderedDict[bytes, Read] = field(default_factory=OrderedDict)
    _segments: OrderedDict[tuple[str, tuple[str, ...]], ReadSegment] = field(default_factory=OrderedDict)

    async def read_segments(self, segments: Sequence[Segment], speakers: tuple[str, ...]) -> list[ReadSegment]:
        """The segments read, in their order; a segment that was read is known again by being the same object.

        Raises `Unavailable` when the embedder's endpoint is.
        """
        places = [(segment.segment_id, speakers) for segment in segments]
        known = {place: self._segments[place] for place in places if place in self._segments}
        fresh = [
            segment
            for place, segment in zip(places, segments, strict=True)
            if place not in known or known[place].segment is not segment
        ]
        texts = [line.text for segment in fresh for line in segment.lines if line.is_evidence]
        read = await self.read(dict.fromkeys(texts), speakers) if texts else {}
        for segment in fresh:
            known[segment.segment_id, speakers] = self._read_segment(segment, read)
        for place in places:
            self._segments[place] = known[place]
            self._segments.move_to_end(place)
        while len(self._segments) > KEPT_SEGMENTS:
            self._segments.popitem(last=False)
        return [known[place] for place in places]

    def _read_segment(self, segment: Segment, read: Mapping[str, Read]) -> ReadSegment:
        vectors = np.zeros((len(segment.lines), self.embedder.dimensions), dtype=np.float32)
        for place, line in enumerate(segment.lines):
            if line.is_evidence:
                vectors[place] = read[line.text][1]
        turns = line_turns(segment, {text: wording for text, (wording, _) in read.items()})
        return ReadSegment(segment, turns, vectors, facts_of(turns))

    async def read(self, texts: Iterable[str], speakers: Sequence[str]) -> dict[str, Read]:
        """Text → its wording and its vector of shape (dimensions,), the speakers' names left out of both.

        Raises `Unavailable` when the embedder's endpoint is.
        """
        names = hashlib.blake2b("\n".join(speakers).encode("utf-8", "surrogatepass"), digest_size=32).digest()
        digests = {text: _digest(names, text) for text in texts}
        fresh = {digest: text for text, digest in digests.items() if digest not in self._kept}
        known = {digest: self._kept[digest] for digest in digests.values() if digest not in fresh}
        if fresh:
            vectors = await self.embedder.embed([without_names(text, speakers) for text in fresh.values()])
            for (digest, text), vector in zip(fresh.items(), vectors, strict=True):
                known[digest] = (read_wording(text, speakers), vector)
        self._keep(known)
        return {text: known[digest] for text, digest in digests.items()}

    def _keep(self, used: dict[bytes, Read]) -> None:
        """Those used last stay."""
        for digest, read in used.items():
            self._kept[digest] = read
            self._kept.move_to_end(digest)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _digest(names: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=names, digest_size=16).digest()
