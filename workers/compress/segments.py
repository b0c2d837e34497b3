"""Builds segments, their documents and their index entries from a segmented session."""

from collections.abc import Collection, Iterable, Sequence

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Collection as Points
from eunoe.schemas.decisions import Point
from eunoe.schemas.events import Line, Provenance, SessionSegmented
from eunoe.schemas.identity import derive_id
from eunoe.schemas.memory import Segment
from eunoe.schemas.model_ports import Vectors
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import NAME
from eunoe.workers.text.names import first_speakers
from eunoe.workers.text.terms import document_vector, terms


class Frequency(Value):
    """The number of segments of a conversation that contain a term."""

    segments: int


class SegmentStats(Value):
    """Statistics of a conversation's segments."""

    segments: int = 0
    session: int = 0
    """The last applied session."""
    speakers: tuple[str, ...] = ()


def cut(event: SessionSegmented) -> list[tuple[Line, ...]]:
    """The lines of each segment of a session."""
    return [event.lines[span.first : span.last + 1] for span in event.spans]


def segment_id(key: str, session: int, index: int) -> str:
    """The id of segment ``index`` of a session."""
    return derive_id(key, session, NAME, index)


def build_segments(
    event: SessionSegmented, parts: Sequence[tuple[Line, ...]], denoised: Sequence[Sequence[str]], made_by: Provenance
) -> list[Segment]:
    """The session's segments; ``denoised[i]`` are the compressed texts of the lines of part i."""
    return [
        Segment(
            segment_id=segment_id(event.key, event.session, index),
            session=event.session,
            index=index,
            lines=lines,
            denoised="\n".join(f"{line.speaker}: {text}" for line, text in zip(lines, texts, strict=True) if text),
            known_from=event.known_from,
            made_by=made_by,
        )
        for index, (lines, texts) in enumerate(zip(parts, denoised, strict=True))
    ]


def speakers_of(stats: SegmentStats, event: SessionSegmented) -> tuple[str, ...]:
    """The first speakers of the conversation so far."""
    return first_speakers(stats.speakers, (line.speaker for line in event.lines))


def build_point(
    key: str, segment: Segment, vector: Vectors, segment_terms: list[str], settings: CompressSettings
) -> Point:
    """The index entry of a segment; ``vector`` has shape (dimensions,)."""
    return Point(
        collection=Points.SEGMENTS,
        id=segment.segment_id,
        key=key,
        born=segment.session,
        seq=segment.session,
        text=segment.denoised,
        dense=vector.astype("<f4").tobytes(),
        sparse=document_vector(segment_terms, settings.average_terms),
    )


def plain_text(texts: Iterable[str]) -> str:
    """The text to embed: the compressed words without speaker names, which would make all segments similar."""
    return " ".join(text for text in texts if text)


def term_lists(denoised: Sequence[Sequence[str]], speakers: Collection[str]) -> list[list[str]]:
    """The BM25 terms of each segment, without the speakers' names."""
    return [terms(plain_text(texts), drop=speakers) for texts in denoised]
