"""The segmenter that needs no language model."""

from collections.abc import Sequence

from eunoe.schemas.events import Line, Provenance
from eunoe.schemas.model_ports import Embedder
from eunoe.workers.models.local.offload import offload
from eunoe.workers.segment.boundaries import boundaries
from eunoe.workers.segment.segmenter import CODE, Segmentation
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.spans import units_of


class OfflineSegmenter:
    """Segments by cohesion of embeddings and cues of dialogue; deterministic."""

    def __init__(self, embedder: Embedder, settings: SegmentSettings) -> None:
        self._embedder = embedder
        self._settings = settings

    async def segment(self, lines: Sequence[Line]) -> Segmentation:
        """Segments that tile ``lines``; raises `Unavailable` if the embedder is unavailable."""
        made_by = Provenance(code=CODE, model=self._embedder.name)
        if not lines:
            return Segmentation((), made_by)
        texts = [line.text for line in lines]
        vectors = await self._embedder.embed(texts)
        speakers = [line.speaker for line in lines]
        units = units_of(lines, self._settings.unit)
        threshold = self._settings.threshold
        spans = await offload(len(lines), boundaries, texts, vectors, threshold, speakers=speakers, units=units)
        return Segmentation(spans, made_by)
