"""Builds stage link from its ports and settings."""

from eunoe.workers.link.judge import Judge
from eunoe.workers.link.model import ModelJudge
from eunoe.workers.link.offline import OfflineJudge
from eunoe.workers.link.settings import LinkSettings
from eunoe.workers.link.stage import LinkStage
from eunoe.workers.stage import Dependencies, Stage


def judge_of(dependencies: Dependencies) -> Judge:
    """The judge of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(LinkSettings), dependencies.language_of("link")
    offline = OfflineJudge(settings)
    return offline if language is None else ModelJudge(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, judge = dependencies.settings.of(LinkSettings), judge_of(dependencies)
    return LinkStage(dependencies.store, dependencies.index, dependencies.embedder, judge, settings)
