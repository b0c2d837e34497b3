"""Builds stage compress from its ports and settings."""

from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.stage import CompressStage
from eunoe.workers.stage import Dependencies, Stage


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(CompressSettings)
    return CompressStage(dependencies.store, dependencies.compressor, dependencies.embedder, settings)
