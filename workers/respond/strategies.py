"""The recall source of each strategy."""

from collections.abc import Mapping

from eunoe.schemas.events import Strategy
from eunoe.schemas.memory import Memory, Segment
from eunoe.workers.link.reads import TimelineSettings, VertexCache
from eunoe.workers.respond.fused.source import FusedSource
from eunoe.workers.respond.recall.feature_cache import FeatureCache
from eunoe.workers.respond.recall.memories import CurrentSource, InsightSource, MemorySearch
from eunoe.workers.respond.recall.parse_cache import SEGMENT_SHARE, SHARE, VERTEX_SHARE, ParseCache
from eunoe.workers.respond.recall.segments import SegmentSource
from eunoe.workers.respond.recall.sources import HybridSearch, RecallSource
from eunoe.workers.respond.recall.timelines import TimelineSource
from eunoe.workers.respond.recall.trees import TreeSource
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.stage import Dependencies
from eunoe.workers.tree.reads import TreeRecall, TreeRecallSettings, TreeSettings


def recall_sources(dependencies: Dependencies) -> Mapping[Strategy, RecallSource]:
    """The recall source of each strategy."""
    store, index, embedder = dependencies.store, dependencies.index, dependencies.embedder
    settings, timeline = dependencies.settings.of(RespondSettings), dependencies.settings.of(TimelineSettings)
    search = HybridSearch(index, embedder, settings)
    cache_bytes = settings.cache_mb << 20
    documents, segments, vertices = (int(share * cache_bytes) for share in (SHARE, SEGMENT_SHARE, VERTEX_SHARE))
    graph = VertexCache(vertices)
    parse_segment, parse_memory = ParseCache(Segment.from_json, segments), ParseCache(Memory.from_json, documents)
    memories = MemorySearch(store, search, parse_memory, settings.activation, settings.rrf_k)
    recall_settings, tree_settings = (
        dependencies.settings.of(TreeRecallSettings),
        dependencies.settings.of(TreeSettings),
    )
    tree = TreeSource(store, TreeRecall(store, index, embedder, recall_settings))
    aggregates_stand = tree_settings.ask_model and recall_settings.aggregates_stand
    return {
        Strategy.SEGMENT: SegmentSource(store, search, parse_segment),
        Strategy.TIMELINE: TimelineSource(store, search, timeline, graph=graph),
        Strategy.TREE: tree,
        Strategy.CURRENT: CurrentSource(memories, settings.current),
        Strategy.INSIGHT: InsightSource(memories, settings.called_up),
        Strategy.FUSED: FusedSource(
            store,
            search,
            FeatureCache(embedder, cache_bytes - documents - segments - vertices),
            timeline,
            settings.max_lines,
            tree if aggregates_stand else None,
            parse_memory=parse_memory,
            graph=graph,
        ),
    }
