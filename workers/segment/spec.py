"""Spec of stage segment."""

from eunoe.schemas.events import SessionClosed, SessionSegmented
from eunoe.workers.segment.model import ModelSegmenter
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.segmenter import Segmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import NAME, SegmentStage
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session


def segmenter_of(dependencies: Dependencies) -> Segmenter:
    """The segmenter of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(SegmentSettings), dependencies.language_of("segment")
    offline = OfflineSegmenter(dependencies.embedder, settings)
    return offline if language is None else ModelSegmenter(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return SegmentStage(segmenter_of(dependencies))


SPEC = StageSpec(
    name=NAME,
    purpose="Split sessions into topic segments (SeCom, section 2.2)",
    consumes=(SessionClosed,),
    emits=(SessionSegmented,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"segment": SegmentSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    on_failure=skip_session(NAME),
)
