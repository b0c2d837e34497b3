"""Spec of stage tree."""

from eunoe.schemas.memory import MemoriesChanged
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session
from eunoe.workers.tree.aggregates import Aggregator
from eunoe.workers.tree.entries import MemoryEntries, SegmentEntries
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.nodes import NAME, TABLES
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.restore import restore_points
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings, TreeUnit
from eunoe.workers.tree.stage import TreeStage


def aggregator_of(dependencies: Dependencies) -> Aggregator:
    """The aggregator of the stage: the model's where one is set, and the settings let it be asked."""
    settings, language = dependencies.settings.of(TreeSettings), dependencies.language_of("tree")
    offline = OfflineAggregator(dependencies.embedder, settings)
    return ModelAggregator(language, offline, settings) if language is not None and settings.ask_model else offline


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings = dependencies.settings.of(TreeSettings)
    source = MemoryEntries() if settings.unit is TreeUnit.MEMORIES else SegmentEntries(dependencies.store)
    return TreeStage(dependencies.store, source, dependencies.embedder, aggregator_of(dependencies), settings)


SPEC = StageSpec(
    name=NAME,
    purpose="Grow a tree over the memories (MemTree)",
    consumes=(MemoriesChanged,),
    order=ApplyOrder.SESSION,
    build=build,
    settings={"tree": TreeSettings},
    reply_settings={"tree_recall": TreeRecallSettings},
    models=(ModelKind.EMBEDDING, ModelKind.LANGUAGE),
    tables=TABLES,
    reads=("compress", "update"),
    on_failure=skip_session(NAME),
    restore_points=restore_points,
)
