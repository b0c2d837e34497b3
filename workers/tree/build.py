"""Builds stage tree from its ports and settings."""

from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.tree.aggregates import Aggregator
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.stage import TreeStage


def aggregator_of(dependencies: Dependencies) -> Aggregator:
    """The aggregator of the stage: the model's where one is set, and the settings let it be asked."""
    settings, language = dependencies.settings.of(TreeSettings), dependencies.language_of("tree")
    offline = OfflineAggregator(dependencies.embedder, settings)
    return ModelAggregator(language, offline, settings) if language is not None and settings.ask_model else offline


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(TreeSettings)
    return TreeStage(dependencies.store, dependencies.embedder, aggregator_of(dependencies), settings)
