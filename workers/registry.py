"""The registry: one row per stage, and how each is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eunoe.schemas.base import Value
from eunoe.schemas.events import (
    Erase,
    Reply,
    ReplyContext,
    ReplyRequested,
    SessionClosed,
    SessionEnded,
    SessionSegmented,
    Strategy,
    Utterance,
)
from eunoe.schemas.memory import InsightsProposed, MemoriesChanged, MemoriesFormed, Memory, Segment
from eunoe.schemas.ports import Compressor, Embedder, LanguageModel, StateStore, VectorIndex
from eunoe.workers.blend import reads as blend_reads
from eunoe.workers.blend.model import ModelBlender
from eunoe.workers.blend.offline import OfflineBlender
from eunoe.workers.blend.outcomes import propose_nothing
from eunoe.workers.blend.reads import Recall
from eunoe.workers.blend.settings import BlendSettings
from eunoe.workers.blend.stage import BlendStage
from eunoe.workers.compress import segments
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.compress.stage import CompressStage
from eunoe.workers.intake import book
from eunoe.workers.intake.settings import IntakeSettings
from eunoe.workers.intake.stage import IntakeStage
from eunoe.workers.link import graph
from eunoe.workers.link.model import ModelJudge
from eunoe.workers.link.offline import OfflineJudge
from eunoe.workers.link.settings import LinkSettings, TimelineSettings
from eunoe.workers.link.stage import LinkStage
from eunoe.workers.respond import stage as respond_stage
from eunoe.workers.respond.fused.source import FusedSource
from eunoe.workers.respond.memories import CurrentSource, InsightSource, MemorySearch
from eunoe.workers.respond.model import ModelReplier
from eunoe.workers.respond.offline import OfflineReplier
from eunoe.workers.respond.parses import Parses
from eunoe.workers.respond.segments import SegmentSource
from eunoe.workers.respond.settings import RespondSettings
from eunoe.workers.respond.sources import HybridSearch, RecallSource
from eunoe.workers.respond.stage import RespondStage, error_reply
from eunoe.workers.respond.timelines import TimelineSource
from eunoe.workers.respond.trees import TreeSource
from eunoe.workers.respond.wordings import Wordings
from eunoe.workers.segment.model import ModelSegmenter
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import SegmentStage
from eunoe.workers.stage import ApplyOrder, Stage, StageSpec, skip_session
from eunoe.workers.summarize.model import ModelSummarizer
from eunoe.workers.summarize.offline import OfflineSummarizer
from eunoe.workers.summarize.settings import SummarizeSettings
from eunoe.workers.summarize.stage import SummarizeStage
from eunoe.workers.tree import nodes
from eunoe.workers.tree.entries import MemoryEntries, SegmentEntries
from eunoe.workers.tree.model import ModelAggregator
from eunoe.workers.tree.offline import OfflineAggregator
from eunoe.workers.tree.reads import TreeRecall
from eunoe.workers.tree.settings import TreeRecallSettings, TreeSettings, TreeUnit
from eunoe.workers.tree.stage import TreeStage
from eunoe.workers.update import memories
from eunoe.workers.update.model import ModelOperator
from eunoe.workers.update.offline import OfflineOperator
from eunoe.workers.update.settings import UpdateSettings
from eunoe.workers.update.stage import UpdateStage


class StageSettings(Value):
    """The settings of every room."""

    intake: IntakeSettings = IntakeSettings()
    blend: BlendSettings = BlendSettings()
    segment: SegmentSettings = SegmentSettings()
    compress: CompressSettings = CompressSettings()
    summarize: SummarizeSettings = SummarizeSettings()
    update: UpdateSettings = UpdateSettings()
    link: LinkSettings = LinkSettings()
    timeline: TimelineSettings = TimelineSettings()
    tree: TreeSettings = TreeSettings()
    tree_recall: TreeRecallSettings = TreeRecallSettings()
    respond: RespondSettings = RespondSettings()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What stages are built from."""

    store: StateStore
    index: VectorIndex
    embedder: Embedder
    compressor: Compressor
    language: LanguageModel | None
    """None: the offline twins decide."""
    settings: StageSettings


def _intake(dependencies: Dependencies) -> Stage:
    return IntakeStage(dependencies.store, dependencies.settings.intake)


def _blend(dependencies: Dependencies) -> Stage:
    settings = dependencies.settings.blend
    recall = Recall(dependencies.store, dependencies.index, dependencies.embedder, settings)
    offline = OfflineBlender(settings)
    blender = offline if dependencies.language is None else ModelBlender(dependencies.language, offline, settings)
    return BlendStage(dependencies.store, recall, blender, settings)


def _segment(dependencies: Dependencies) -> Stage:
    offline = OfflineSegmenter(dependencies.embedder, dependencies.settings.segment)
    if dependencies.language is None:
        return SegmentStage(offline)
    return SegmentStage(ModelSegmenter(dependencies.language, offline, dependencies.settings.segment))


def _compress(dependencies: Dependencies) -> Stage:
    return CompressStage(
        dependencies.store, dependencies.compressor, dependencies.embedder, dependencies.settings.compress
    )


def _summarize(dependencies: Dependencies) -> Stage:
    offline = OfflineSummarizer(dependencies.settings.summarize)
    if dependencies.language is None:
        return SummarizeStage(offline)
    return SummarizeStage(ModelSummarizer(dependencies.language, offline, dependencies.settings.summarize))


def _update(dependencies: Dependencies) -> Stage:
    offline = OfflineOperator()
    operator = offline if dependencies.language is None else ModelOperator(dependencies.language, offline)
    return UpdateStage(
        dependencies.store, dependencies.index, dependencies.embedder, operator, dependencies.settings.update
    )


def _link(dependencies: Dependencies) -> Stage:
    offline = OfflineJudge(dependencies.settings.link)
    judge = (
        offline
        if dependencies.language is None
        else ModelJudge(dependencies.language, offline, dependencies.settings.link)
    )
    return LinkStage(dependencies.store, dependencies.index, dependencies.embedder, judge, dependencies.settings.link)


def _tree(dependencies: Dependencies) -> Stage:
    settings = dependencies.settings.tree
    source = MemoryEntries() if settings.unit is TreeUnit.MEMORIES else SegmentEntries(dependencies.store)
    offline = OfflineAggregator(dependencies.embedder, settings)
    aggregator = offline if dependencies.language is None else ModelAggregator(dependencies.language, offline, settings)
    return TreeStage(dependencies.store, source, dependencies.embedder, aggregator, settings)


def recall_sources(dependencies: Dependencies) -> Mapping[Strategy, RecallSource]:
    """Where replies look, by strategy."""
    settings = dependencies.settings.respond
    finder = HybridSearch(dependencies.index, dependencies.embedder, settings)
    parsed = Parses(Segment.from_json)
    search = MemorySearch(dependencies.store, finder, Parses(Memory.from_json))
    return {
        Strategy.SEGMENT: SegmentSource(dependencies.store, finder, parsed),
        Strategy.TIMELINE: TimelineSource(dependencies.store, finder, dependencies.settings.timeline),
        Strategy.TREE: TreeSource(
            dependencies.store,
            TreeRecall(
                dependencies.store, dependencies.index, dependencies.embedder, dependencies.settings.tree_recall
            ),
            dependencies.settings.tree.unit,
        ),
        Strategy.CURRENT: CurrentSource(search, settings.current),
        Strategy.INSIGHT: InsightSource(search, settings.called_up),
        Strategy.FUSED: FusedSource(
            dependencies.store,
            finder,
            Wordings(dependencies.embedder),
            dependencies.settings.timeline,
            settings.max_lines,
            segments=parsed,
        ),
    }


def _respond(dependencies: Dependencies) -> Stage:
    settings = dependencies.settings.respond
    offline = OfflineReplier(dependencies.embedder)
    replier = (
        offline if dependencies.language is None else ModelReplier(dependencies.language, offline, settings.refine)
    )
    return RespondStage(dependencies.store, recall_sources(dependencies), replier, settings)


STAGES: Mapping[str, StageSpec] = {
    spec.name: spec
    for spec in (
        StageSpec(
            "intake",
            (Utterance, SessionEnded, Erase),
            (SessionClosed, ReplyRequested, ReplyContext),
            ApplyOrder.POSITION,
            tables=book.TABLES,
        ),
        StageSpec(
            "blend",
            (ReplyRequested,),
            (InsightsProposed, ReplyContext),
            ApplyOrder.TURN,
            propose_nothing,
            tables=blend_reads.TABLES,
            reads=("update",),
        ),
        StageSpec("segment", (SessionClosed,), (SessionSegmented,), ApplyOrder.SESSION, skip_session("segment")),
        StageSpec(
            "compress", (SessionSegmented,), (), ApplyOrder.SESSION, skip_session("compress"), tables=segments.TABLES
        ),
        StageSpec("summarize", (SessionSegmented,), (MemoriesFormed,), ApplyOrder.SESSION, skip_session("summarize")),
        StageSpec(
            "update",
            (MemoriesFormed, InsightsProposed),
            (MemoriesChanged,),
            ApplyOrder.SESSION,
            skip_session("update"),
            gathers=True,
            tables=memories.TABLES,
            in_order=(MemoriesFormed,),
            reads=("link",),
        ),
        StageSpec(
            "link",
            (MemoriesChanged,),
            (),
            ApplyOrder.SESSION,
            skip_session("link"),
            tables=graph.TABLES,
            reads=("update",),
        ),
        StageSpec(
            "tree",
            (MemoriesChanged,),
            (),
            ApplyOrder.SESSION,
            skip_session("tree"),
            tables=nodes.TABLES,
            reads=("compress",),
        ),
        StageSpec(
            "respond",
            (ReplyContext,),
            (Reply,),
            ApplyOrder.REQUEST,
            error_reply,
            tables=respond_stage.TABLES,
            reads=("compress", "update", "link", "tree"),
        ),
    )
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(STAGES),
    "replies": tuple(name for name, spec in STAGES.items() if spec.answers),
    "memory": tuple(name for name, spec in STAGES.items() if not spec.answers),
}
"""Stages that one process may run together; who answers in a process of its own waits for no import."""

BUILDERS: Mapping[str, Callable[[Dependencies], Stage]] = {
    "intake": _intake,
    "blend": _blend,
    "segment": _segment,
    "compress": _compress,
    "summarize": _summarize,
    "update": _update,
    "link": _link,
    "tree": _tree,
    "respond": _respond,
}


def build_stage(name: str, dependencies: Dependencies) -> Stage:
    """The stage of that name, over the kit's ports."""
    return BUILDERS[name](dependencies)
