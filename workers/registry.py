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
from eunoe.workers.rows import ApplyOrder, StageSpec, skip_session
from eunoe.workers.segment.model import ModelSegmenter
from eunoe.workers.segment.offline import OfflineSegmenter
from eunoe.workers.segment.settings import SegmentSettings
from eunoe.workers.segment.stage import SegmentStage
from eunoe.workers.stage import Stage
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


def _intake(kit: Dependencies) -> Stage:
    return IntakeStage(kit.store, kit.settings.intake)


def _blend(kit: Dependencies) -> Stage:
    settings = kit.settings.blend
    recall = Recall(kit.store, kit.index, kit.embedder, settings)
    offline = OfflineBlender(settings)
    blender = offline if kit.language is None else ModelBlender(kit.language, offline, settings)
    return BlendStage(kit.store, recall, blender, settings)


def _segment(kit: Dependencies) -> Stage:
    offline = OfflineSegmenter(kit.embedder, kit.settings.segment)
    if kit.language is None:
        return SegmentStage(offline)
    return SegmentStage(ModelSegmenter(kit.language, offline, kit.settings.segment))


def _compress(kit: Dependencies) -> Stage:
    return CompressStage(kit.store, kit.compressor, kit.embedder, kit.settings.compress)


def _summarize(kit: Dependencies) -> Stage:
    offline = OfflineSummarizer(kit.settings.summarize)
    if kit.language is None:
        return SummarizeStage(offline)
    return SummarizeStage(ModelSummarizer(kit.language, offline, kit.settings.summarize))


def _update(kit: Dependencies) -> Stage:
    offline = OfflineOperator()
    operator = offline if kit.language is None else ModelOperator(kit.language, offline)
    return UpdateStage(kit.store, kit.index, kit.embedder, operator, kit.settings.update)


def _link(kit: Dependencies) -> Stage:
    offline = OfflineJudge(kit.settings.link)
    judge = offline if kit.language is None else ModelJudge(kit.language, offline, kit.settings.link)
    return LinkStage(kit.store, kit.index, kit.embedder, judge, kit.settings.link)


def _tree(kit: Dependencies) -> Stage:
    settings = kit.settings.tree
    source = MemoryEntries() if settings.unit is TreeUnit.MEMORIES else SegmentEntries(kit.store)
    offline = OfflineAggregator(kit.embedder, settings)
    aggregator = offline if kit.language is None else ModelAggregator(kit.language, offline, settings)
    return TreeStage(kit.store, source, kit.embedder, aggregator, settings)


def recall_sources(kit: Dependencies) -> Mapping[Strategy, RecallSource]:
    """Where replies look, by strategy."""
    settings = kit.settings.respond
    finder = HybridSearch(kit.index, kit.embedder, settings)
    parsed = Parses(Segment.from_json)
    search = MemorySearch(kit.store, finder, Parses(Memory.from_json))
    return {
        Strategy.SEGMENT: SegmentSource(kit.store, finder, parsed),
        Strategy.TIMELINE: TimelineSource(kit.store, finder, kit.settings.timeline),
        Strategy.TREE: TreeSource(
            kit.store,
            TreeRecall(kit.store, kit.index, kit.embedder, kit.settings.tree_recall),
            kit.settings.tree.unit,
        ),
        Strategy.CURRENT: CurrentSource(search, settings.current),
        Strategy.INSIGHT: InsightSource(search, settings.called_up),
        Strategy.FUSED: FusedSource(
            kit.store,
            finder,
            Wordings(kit.embedder),
            kit.settings.timeline,
            settings.max_lines,
            segments=parsed,
        ),
    }


def _respond(kit: Dependencies) -> Stage:
    settings = kit.settings.respond
    offline = OfflineReplier(kit.embedder)
    replier = offline if kit.language is None else ModelReplier(kit.language, offline, settings.refine)
    return RespondStage(kit.store, recall_sources(kit), replier, settings)


STAGES: Mapping[str, StageSpec] = {
    row.name: row
    for row in (
        StageSpec(
            "intake",
            (Utterance, SessionEnded, Erase),
            (SessionClosed, ReplyRequested, ReplyContext),
            ApplyOrder.POSITION,
            keeping=book.KEEPING,
        ),
        StageSpec(
            "blend",
            (ReplyRequested,),
            (InsightsProposed, ReplyContext),
            ApplyOrder.TURN,
            propose_nothing,
            keeping=blend_reads.KEEPING,
            reads=("update",),
        ),
        StageSpec("segment", (SessionClosed,), (SessionSegmented,), ApplyOrder.SESSION, skip_session("segment")),
        StageSpec(
            "compress", (SessionSegmented,), (), ApplyOrder.SESSION, skip_session("compress"), keeping=segments.KEEPING
        ),
        StageSpec("summarize", (SessionSegmented,), (MemoriesFormed,), ApplyOrder.SESSION, skip_session("summarize")),
        StageSpec(
            "update",
            (MemoriesFormed, InsightsProposed),
            (MemoriesChanged,),
            ApplyOrder.SESSION,
            skip_session("update"),
            gathers=True,
            keeping=memories.KEEPING,
            in_order=(MemoriesFormed,),
            reads=("link",),
        ),
        StageSpec(
            "link",
            (MemoriesChanged,),
            (),
            ApplyOrder.SESSION,
            skip_session("link"),
            keeping=graph.KEEPING,
            reads=("update",),
        ),
        StageSpec(
            "tree",
            (MemoriesChanged,),
            (),
            ApplyOrder.SESSION,
            skip_session("tree"),
            keeping=nodes.KEEPING,
            reads=("compress",),
        ),
        StageSpec(
            "respond",
            (ReplyContext,),
            (Reply,),
            ApplyOrder.REQUEST,
            error_reply,
            keeping=respond_stage.KEEPING,
            reads=("compress", "update", "link", "tree"),
        ),
    )
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(STAGES),
    "replies": tuple(name for name, row in STAGES.items() if row.answers),
    "memory": tuple(name for name, row in STAGES.items() if not row.answers),
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


def build_stage(name: str, kit: Dependencies) -> Stage:
    """The stage of that name, over the kit's ports."""
    return BUILDERS[name](kit)
