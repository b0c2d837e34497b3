"""Spec of stage update."""

from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session
from eunoe.workers.update.memories import NAME, TABLES
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.operator import Operator
from eunoe.workers.update.restore import restore_points
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


SPEC = StageSpec(
    name=NAME,
    purpose="Keep memories up to date, as their only writer (Keep Me Updated, section 4.3)",
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
    restore_points=restore_points,
)
