"""Builds stage update from its ports and settings."""

from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import Operator
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage


def operator_of(dependencies: Dependencies) -> Operator:
    """The operator of the stage: the model's where one is set."""
    offline, language = OfflineOperator(), dependencies.language_of("update")
    return offline if language is None else ModelOperator(language, offline)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, operator = dependencies.settings.of(UpdateSettings), operator_of(dependencies)
    return UpdateStage(dependencies.store, dependencies.index, dependencies.embedder, operator, settings)
