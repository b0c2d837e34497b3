"""Spec of stage segment."""

from eunoe.schemas.events import SessionClosed, SessionSegmented
from eunoe.workers.segment.model import ModelSegmenter
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import NAME, SegmentStage
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, language = dependencies.settings.of(SegmentSettings), dependencies.language
    offline = OfflineSegmenter(dependencies.embedder, settings)
    return SegmentStage(offline if language is None else ModelSegmenter(language, offline, settings))


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
