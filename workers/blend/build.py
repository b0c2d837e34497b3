"""Builds stage blend from its ports and settings."""

from eunoe.workers.blend.blender import Blender
from eunoe.workers.blend.model import ModelBlender
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.reads import Recall
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.stage import BlendStage
from eunoe.workers.stage import Dependencies, Stage


def blender_of(dependencies: Dependencies) -> Blender:
    """The blender of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(BlendSettings), dependencies.language_of("blend")
    offline = OfflineBlender(settings)
    return offline if language is None else ModelBlender(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(BlendSettings)
    recall = Recall(dependencies.store, dependencies.index, dependencies.embedder, settings)
    return BlendStage(dependencies.store, recall, blender_of(dependencies), settings)
