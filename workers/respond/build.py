"""Builds stage respond from its ports and settings."""

from eunoe.workers.respond.model import ModelReplier
from eunoe.workers.respond.offline.replier import OfflineReplier
from eunoe.workers.respond.replier import Replier
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.stage import RespondStage
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.stage import Dependencies, Stage


def replier_of(dependencies: Dependencies) -> Replier:
    """The replier of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(RespondSettings), dependencies.language_of("respond")
    offline = OfflineReplier(dependencies.embedder)
    return offline if language is None else ModelReplier(language, offline, settings.refine)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, replier = dependencies.settings.of(RespondSettings), replier_of(dependencies)
    return RespondStage(dependencies.store, recall_sources(dependencies), replier, settings)
