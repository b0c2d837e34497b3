"""Stage `compress`: denoises segments and indexes them for search (SeCom, section 2.3)."""

from collections.abc import Sequence
from itertools import chain

from eunoe.schemas.decisions import Decision, Put, Work
from eunoe.schemas.events import Line, Provenance, SessionSegmented
from eunoe.schemas.model_ports import Compressor, Embedder, Vectors
from eunoe.schemas.ports import StateStore
from eunoe.workers.compress.features import LineFeatures, build_features, passage_texts
from eunoe.workers.compress.reads import read_frequencies, read_stats
from eunoe.workers.compress.segments import (
    Frequency,
    SegmentStats,
    build_point,
    build_segments,
    cut,
    plain_text,
    speakers_of,
    term_lists,
)
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.tables import READINGS, SEGMENTS, STATS, TERMS
from eunoe.workers.models.local.offload import offload
from eunoe.workers.stores.documents.term_counts import frequency_writes

CODE = "compress/1"


class CompressStage:
    """Owns the segments of a conversation and their term counts for BM25."""

    def __init__(
        self, store: StateStore, compressor: Compressor, embedder: Embedder, settings: CompressSettings
    ) -> None:
        self._store = store
        self._compressor = compressor
        self._embedder = embedder
        self._settings = settings

    async def decide(self, work: Work[SessionSegmented]) -> Decision:
        """Decide the session's segments as documents and points; raises `Unavailable`."""
        event = work.event
        parts = cut(event)
        denoised = await self._denoise(parts)
        stats = await read_stats(self._store, work.key)
        speakers = speakers_of(stats, event)
        segments = build_segments(event, parts, denoised, self._provenance())
        listed = term_lists(denoised, speakers)
        findable = [index for index, segment in enumerate(segments) if segment.denoised]
        vectors, readings = await self._read(parts, [plain_text(denoised[index]) for index in findable], speakers)
        points = [
            build_point(work.key, segments[index], vectors[row], listed[index], self._settings)
            for row, index in enumerate(findable)
        ]
        after = SegmentStats(
            segments=stats.segments + len(findable), session=max(stats.session, work.state_session), speakers=speakers
        )
        known = await read_frequencies(self._store, work.key, set(chain.from_iterable(listed)))
        writes = [
            *(Put.of(SEGMENTS, segment.segment_id, segment) for segment in segments),
            *(Put.of(READINGS, one.segment_id, reading) for one, reading in zip(segments, readings, strict=True)),
            *frequency_writes(TERMS, Frequency, listed, known),
            Put.of(STATS, STATS, after),
        ]
        return Decision(writes=tuple(writes), points=tuple(points))

    async def _read(
        self, parts: Sequence[tuple[Line, ...]], texts: Sequence[str], speakers: tuple[str, ...]
    ) -> tuple[Vectors, list[LineFeatures]]:
        """The vectors of ``texts`` and those of each part's passages, with one call for the whole session."""
        said = await offload(sum(map(len, parts)), _passages, parts, speakers)
        vectors = await self._embedder.embed([*texts, *chain.from_iterable(said)])
        readings, start = [], len(texts)
        for own in said:
            rows = vectors[start : start + len(own)]
            readings.append(build_features(rows, self._embedder.name, speakers))
            start += len(own)
        return vectors[: len(texts)], readings

    def _provenance(self) -> Provenance:
        return Provenance(code=CODE, model=f"{self._compressor.name} + {self._embedder.name}")

    async def _denoise(self, parts: Sequence[tuple[Line, ...]]) -> list[list[str]]:
        """The compressed texts of each part's lines, with one call for the whole session."""
        texts = [line.text for lines in parts for line in lines]
        compressed = iter(await self._compressor.compress(texts, self._settings.keep) if texts else [])
        return [[next(compressed) for _ in lines] for lines in parts]


def _passages(parts: Sequence[tuple[Line, ...]], speakers: Sequence[str]) -> list[list[str]]:
    return [passage_texts(lines, speakers) for lines in parts]
