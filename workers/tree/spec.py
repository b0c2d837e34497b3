"""Spec of stage tree."""

from eunoe.schemas.memory import MemoriesChanged
from eunoe.workers.stage import ApplyOrder, Dependencies, ModelKind, Stage, StageSpec, skip_session
from eunoe.workers.tree.entries import MemoryEntries, SegmentEntries
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.nodes import NAME, TABLES
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings, TreeUnit
from eunoe.workers.tree.stage import TreeStage


def build(dependencies: Dependencies) -> Stage:
    """The stage over these ports."""
    settings, language = dependencies.settings.of(TreeSettings), dependencies.language
    source = MemoryEntries() if settings.unit is TreeUnit.MEMORIES else SegmentEntries(dependencies.store)
    offline = OfflineAggregator(dependencies.embedder, settings)
    aggregator = offline if language is None else ModelAggregator(language, offline, settings)
    return TreeStage(dependencies.store, source, dependencies.embedder, aggregator, settings)


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
    reads=("compress",),
    on_failure=skip_session(NAME),
)
