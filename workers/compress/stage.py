"""Stage compress: denoises segments and makes them findable (SeCom, section 2.3)."""

from collections.abc import Sequence
from itertools import chain

from eunoe.schemas.decisions import Decision, Put, Work
from eunoe.schemas.events import Line, Provenance, SessionSegmented
from eunoe.schemas.ports import Compressor, Embedder, StateStore
from eunoe.workers.compress.reads import read_frequencies, read_stats
from eunoe.workers.compress.segments import (
    SEGMENTS,
    STATS,
    Stats,
    build_point,
    build_segments,
    cut,
    evidence,
    frequency_writes,
    plain_text,
    speakers_of,
    term_lists,
)
from eunoe.workers.compress.settings import CompressSettings

CODE = "compress/1"


class CompressStage:
    """Owns the segments of a conversation and what BM25 must know of their words."""

    def __init__(
        self, store: StateStore, compressor: Compressor, embedder: Embedder, settings: CompressSettings
    ) -> None:
        self._store = store
        self._compressor = compressor
        self._embedder = embedder
        self._settings = settings

    async def decide(self, work: Work[SessionSegmented]) -> Decision:
        """The session's segments as documents and points, with the term frequencies after it."""
        event = work.event
        parts = cut(event)
        denoised = await self._denoise(parts)
        stats = await read_stats(self._store, work.key)
        speakers = speakers_of(stats, event)
        segments = build_segments(event, parts, denoised, self._provenance())
        listed = term_lists(denoised, speakers)
        findable = [index for index, segment in enumerate(segments) if segment.denoised]
        vectors = await self._embedder.embed([plain_text(denoised[index]) for index in findable])
        points = [
            build_point(work.key, segments[index], vectors[row], listed[index], self._settings)
            for row, index in enumerate(findable)
        ]
        after = Stats(segments=stats.segments + len(findable), session=max(stats.session, work.seq), speakers=speakers)
        writes = [
            *(Put.of(SEGMENTS, segment.segment_id, segment) for segment in segments),
            *frequency_writes(listed, await read_frequencies(self._store, work.key, set(chain.from_iterable(listed)))),
            Put.of(STATS, STATS, after),
        ]
        return Decision(writes=tuple(writes), points=tuple(points))

    def _provenance(self) -> Provenance:
        return Provenance(code=CODE, model=f"{self._compressor.name} + {self._embedder.name}")

    async def _denoise(self, parts: Sequence[tuple[Line, ...]]) -> list[list[str]]:
        """The compressed texts of each part's evidence lines; one call for the whole session."""
        proofs = [evidence(lines) for lines in parts]
        texts = [line.text for lines in proofs for line in lines]
        compressed = iter(await self._compressor.compress(texts, self._settings.keep) if texts else [])
        return [[next(compressed) for _ in lines] for lines in proofs]
