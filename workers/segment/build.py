"""Builds stage segment from its ports and settings."""

from eunoe.workers.segment.model import ModelSegmenter
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.segmenter import Segmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import SegmentStage
from eunoe.workers.stage import Dependencies, Stage


def segmenter_of(dependencies: Dependencies) -> Segmenter:
    """The segmenter of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(SegmentSettings), dependencies.language_of("segment")
    offline = OfflineSegmenter(dependencies.embedder, settings)
    return offline if language is None else ModelSegmenter(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return SegmentStage(segmenter_of(dependencies))
