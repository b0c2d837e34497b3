"""Builds stage tree from its ports and settings."""

from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.tree.aggregates import Aggregator
from eunoe.workers.tree.entries import MemoryEntries, SegmentEntries
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.settings import TreeSettings, TreeUnit
from eunoe.workers.tree.stage import TreeStage


def aggregator_of(dependencies: Dependencies) -> Aggregator:
    """The aggregator of the stage: the model's where one is set, and the settings let it be asked."""
    settings, language = dependencies.settings.of(TreeSettings), dependencies.language_of("tree")
    offline = OfflineAggregator(dependencies.embedder, settings)
    return ModelAggregator(language, offline, settings) if language is not None and settings.ask_model else offline


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(TreeSettings)
    source = MemoryEntries() if settings.unit is TreeUnit.MEMORIES else SegmentEntries(dependencies.store)
    return TreeStage(dependencies.store, source, dependencies.embedder, aggregator_of(dependencies), settings)
