"""Spec of stage update."""

from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session
from eunoe.workers.update.memories import NAME, TABLES
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, language = dependencies.settings.of(UpdateSettings), dependencies.language
    offline = OfflineOperator()
    operator = offline if language is None else ModelOperator(language, offline)
    return UpdateStage(dependencies.store, dependencies.index, dependencies.embedder, operator, settings)


SPEC = StageSpec(
    name=NAME,
    purpose="Keep memories up to date, as their only writer (Keep Me Updated, section 3)",
    consumes=(MemoriesFormed, InsightsProposed),
    emits=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"update": UpdateSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("link",),
    gathers=True,
    in_order=(MemoriesFormed,),
    on_failure=skip_session(NAME),
)
