"""Spec of stage summarize."""

from eunoe.schemas.events import SessionSegmented
from eunoe.schemas.memory import MemoriesFormed
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session
from eunoe.workers.summarize.model import ModelSummarizer
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.stage import NAME, SummarizeStage
from eunoe.workers.summarize.summarizer import Summarizer


def summarizer_of(dependencies: Dependencies) -> Summarizer:
    """The summarizer of the stage: the model's where one is set."""
    settings, language = dependencies.settings.of(SummarizeSettings), dependencies.language_of("summarize")
    offline = OfflineSummarizer(settings)
    return offline if language is None else ModelSummarizer(language, offline, settings)


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    return SummarizeStage(summarizer_of(dependencies))


SPEC = StageSpec(
    name=NAME,
    purpose="Make memory sentences of a session (THEANINE, section 2.1; Keep Me Updated, section 4.2)",
    consumes=(SessionSegmented,),
    emits=(MemoriesFormed,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"summarize": SummarizeSettings},
    models=(ModelKind.LANGUAGE,),
    on_failure=skip_session(NAME),
)
