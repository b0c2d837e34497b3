"""Makes the points of segments again from the stored documents."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from eunoe.schemas.decisions import Point
from eunoe.schemas.documents import read_document
from eunoe.schemas.memory import Segment
from eunoe.workers.compress.segments import build_point, plain_text, term_lists
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import NAME, SEGMENTS
from eunoe.workers.stage import Dependencies
from eunoe.workers.text.names import first_speakers


async def restore_points(dependencies: Dependencies, key: str) -> Sequence[Point]:
    """The points of a conversation's segments, as the stage made them; raises `Unavailable`."""
    rows = await dependencies.store.scan(NAME, key, SEGMENTS)
    segments = sorted(
        (read_document(Segment, row, key) for row in rows.values()),
        key=lambda segment: (segment.session, segment.index),
    )
    names = _names_then(segments)
    findable = [segment for segment in segments if segment.denoised]
    if not findable:
        return ()
    texts = [denoised_texts(segment) for segment in findable]
    listed = [term_lists([said], names[segment.session])[0] for said, segment in zip(texts, findable, strict=True)]
    vectors = await dependencies.embedder.embed([plain_text(said) for said in texts])
    settings = dependencies.settings.of(CompressSettings)
    return [build_point(key, segment, vectors[row], listed[row], settings) for row, segment in enumerate(findable)]


def denoised_texts(segment: Segment) -> list[str]:
    """The compressed texts of a segment's lines, without the speakers before them."""
    return ["\n".join(lines) for lines in _texts(segment)]


def _texts(segment: Segment) -> Iterator[list[str]]:
    heads = tuple({f"{line.speaker}: " for line in segment.lines})
    text: list[str] = []
    for piece in segment.denoised.split("\n"):
        head = next((head for head in heads if piece.startswith(head)), None)
        if head is not None and text:
            yield text
            text = []
        text.append(piece if head is None else piece.removeprefix(head))
    yield text


def _names_then(segments: Sequence[Segment]) -> dict[int, tuple[str, ...]]:
    """Session → the speakers known when it was applied; their names are no terms of its segments."""
    known: tuple[str, ...] = ()
    found: dict[int, tuple[str, ...]] = {}
    for session, parts in groupby(segments, key=lambda segment: segment.session):
        found[session] = known = first_speakers(known, (line.speaker for segment in parts for line in segment.lines))
    return found
