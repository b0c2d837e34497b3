"""Texts read and embedded once: what a text says does not depend on who asks what."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eunoe.schemas.memory import Segment
from eunoe.schemas.ports import Embedder
from eunoe.workers.compress.reads import LineFeatures, as_kept, worth_of
from eunoe.workers.respond.turns import CandidateTurn, Wording, facts_of, line_turns, read_wording
from eunoe.workers.text.names import without_names

KEPT = 16_384
"""Texts that are remembered: about 25 MB."""
KEPT_SEGMENTS = 4096
"""Segments that are remembered: about 100 MB, most of it vectors."""

Read = tuple[Wording, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment as retrieval sees it."""

    segment: Segment
    turns: tuple[CandidateTurn, ...]
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

    def unread(self, segments: Sequence[Segment], speakers: tuple[str, ...]) -> list[Segment]:
        """Those not read yet; a segment that was read is known again by being the same object."""
        return [segment for segment in segments if self._known(segment, speakers) is None]

    async def read_segments(
        self, segments: Sequence[Segment], speakers: tuple[str, ...], stored: Mapping[str, LineFeatures]
    ) -> list[ReadSegment]:
        """The segments read, in their order; ``stored`` holds what was read of them when they came in.

        Raises `Unavailable` when the embedder's endpoint is.
        """
        fresh = self.unread(segments, speakers)
        fitting = {id_: one for id_, one in stored.items() if self._fits(one, speakers)}
        alone = [segment for segment in fresh if segment.segment_id not in fitting]
        texts = dict.fromkeys(line.text for segment in alone for line in segment.lines if line.is_evidence)
        read = await self.read(texts, speakers) if texts else {}
        for segment in fresh:
            reading = fitting.get(segment.segment_id)
            one = (
                _read_again(segment, speakers, reading) if reading is not None else self._read(segment, speakers, read)
            )
            self._segments[segment.segment_id, speakers] = one
        found = [self._segments[segment.segment_id, speakers] for segment in segments]
        for segment in segments:
            self._segments.move_to_end((segment.segment_id, speakers))
        while len(self._segments) > KEPT_SEGMENTS:
            self._segments.popitem(last=False)
        return found

    def _known(self, segment: Segment, speakers: tuple[str, ...]) -> ReadSegment | None:
        found = self._segments.get((segment.segment_id, speakers))
        return found if found is not None and found.segment is segment else None

    def _fits(self, reading: LineFeatures, speakers: tuple[str, ...]) -> bool:
        return (reading.embedder, reading.speakers) == (self.embedder.name, speakers)

    def _read(self, segment: Segment, speakers: Sequence[str], read: Mapping[str, Read]) -> ReadSegment:
        vectors = np.zeros((len(segment.lines), self.embedder.dimensions), dtype=np.float32)
        for place, line in enumerate(segment.lines):
            if line.is_evidence:
                vectors[place] = read[line.text][1]
        turns = line_turns(segment, {text: wording for text, (wording, _) in read.items()})
        return ReadSegment(segment, turns, as_kept(vectors), facts_of(turns, worth_of(segment.lines, speakers)))

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


def _read_again(segment: Segment, speakers: Sequence[str], reading: LineFeatures) -> ReadSegment:
    wordings = {line.text: read_wording(line.text, speakers) for line in segment.lines if line.is_evidence}
    turns = line_turns(segment, wordings)
    return ReadSegment(segment, turns, reading.unpacked(), facts_of(turns, reading.worth))


def _digest(names: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=names, digest_size=16).digest()
