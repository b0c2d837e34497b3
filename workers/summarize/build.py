"""Builds stage summarize from its ports and settings."""

from eunoe.workers.stage import Dependencies, Stage
from eunoe.workers.summarize.model import ModelSummarizer
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.stage import SummarizeStage
from eunoe.workers.summarize.summarizer import Summarizer


def summarizer_of(dependencies: Dependencies) -> Summarizer:
    """The summarizer of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(SummarizeSettings), dependencies.language_of("summarize")
    offline = OfflineSummarizer(settings)
    return offline if language is None else ModelSummarizer(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return SummarizeStage(summarizer_of(dependencies))
