"""The variants of an ablation: each takes one part out of a paper's idea."""

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from eunoe.deploy.datasets.loaded import EvalQuestion
from eunoe.deploy.evaluate.answering import EVERYTHING, NOTHING, context_of
from eunoe.deploy.evaluate.indexed import MEMORY_UPDATES, IndexedConversation, IngestOptions
from eunoe.schemas.events import Strategy
from eunoe.workers.compress.settings import CompressSettings
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context, make_context, memory_row, write_day, write_row
from eunoe.workers.respond.recall.memories import MemorySearch, lay_out_memories, show_memory
from eunoe.workers.respond.recall.sources import HybridSearch, Query
from eunoe.workers.respond.recall.timelines import (
    ShownTimeline,
    TimelineLayout,
    TimelineSource,
    lay_out_timelines,
)
from eunoe.workers.respond.settings import Refine, RespondSettings, Retriever
from eunoe.workers.respond.strategies import recall_sources
from eunoe.workers.tree.settings import TreeRecallSettings
from tests.papers.blending import infused, uninfused
from tests.papers.without import (
    appending_stage,
    sessions_stage,
    turns_stage,
    unquestioning_stage,
    unrefining_stage,
    unrelating_stage,
)

KEEPS = (1.0, 0.9, 0.75, 0.5)
"""Keep rates of denoising; 1: none."""
RELATIVES = ("oldest third", "middle third", "latest third")

Contexts = Callable[[IndexedConversation, EvalQuestion, int], Awaitable[Context]]
"""(conversation, question, budget in tokens) → context."""
Changed = Callable[[StageSettings], StageSettings]

WHOLE = IngestOptions()
SEGMENTED = ("intake", "segment", "compress")


@dataclass(frozen=True, slots=True)
class Variant:
    """A row of the table: a paper, a variant, and how its memory is made and found."""

    paper: str
    name: str
    what: str
    """Description in a line."""
    find: Contexts
    how: IngestOptions = WHOLE
    """Options for turning the conversation into memory; variants with options of one name share it."""
    changed: Changed = lambda settings: settings
    """Changes the settings of retrieval and reply."""
    needs_model: bool = False
    """Whether the variant differs from the whole idea only with a model."""
    third: int | None = None
    """Only questions whose latest evidence lies in this third of the sessions, from 0."""


def variants(blend_every: int = 5) -> Iterator[Variant]:
    """All variants, paper by paper; for CREEM every ``blend_every``-th utterance is blended."""
    yield from _secom()
    yield from _theanine()
    yield from _memtree()
    yield from _keep_me_updated()
    yield from _creem(blend_every)
    yield Variant("all", "fused", "strategy fused, the default", _strategy(Strategy.FUSED))


def _secom() -> Iterator[Variant]:
    units = {
        "turns": IngestOptions("turns", SEGMENTED, {"segment": turns_stage}),
        "sessions": IngestOptions("sessions", SEGMENTED, {"segment": sessions_stage}),
        "segments": WHOLE,
    }
    said = {
        "turns": "stage segment cuts after each utterance",
        "sessions": "stage segment never cuts",
        "segments": "topic segments",
    }
    for unit, how in units.items():
        for retriever in Retriever:
            what = f"{said[unit]}; strategy segment, EUNOE_RESPOND__RETRIEVER={retriever}"
            changed = _respond(retriever=retriever)
            yield Variant("SeCom", f"{unit}, {retriever}", what, _strategy(Strategy.SEGMENT), how, changed)
    for keep in KEEPS:
        name = "segments, rrf, " + ("no denoising" if keep == 1 else f"keep rate {keep:g}")
        how = IngestOptions(f"keep {keep:g}", SEGMENTED, changed=_keeping(keep))
        what = f"memory made with EUNOE_COMPRESS__KEEP={keep:g}"
        yield Variant("SeCom", name, what, _strategy(Strategy.SEGMENT), how, _respond(retriever=Retriever.RRF))


def _theanine() -> Iterator[Variant]:
    paper, timelines = "THEANINE", _strategy(Strategy.TIMELINE)
    unrelated = IngestOptions("no relations", (*MEMORY_UPDATES, "compress"), {"link": unrelating_stage})
    yield Variant(paper, "timelines", "strategy timeline", timelines, changed=_respond(refine=Refine.FUSED))
    off = _respond(refine=Refine.OFF)
    yield Variant(paper, "no refinement", "EUNOE_RESPOND__REFINE=off", timelines, changed=off, needs_model=True)
    what = "stage link joins each memory to similar ones of every component unasked; the prompt names no relation"
    yield Variant(paper, "no relations", what, _timelines(lambda _: _unnamed), unrelated)
    what = "the same timelines, broken down into memories in a random order, seeded by the question"
    yield Variant(paper, "shuffled timelines", what, _timelines(_broken))
    what = "EUNOE_TIMELINE__MAX_LENGTH=1: the same k memories, alone"
    yield Variant(paper, "flat retrieval, same k", what, timelines, changed=_alone)
    what = "as many of the best memories as the timelines of the question show, by time"
    yield Variant(paper, "flat retrieval, as many memories", what, _as_many)


def _memtree() -> Iterator[Variant]:
    ways = {"tree": ("strategy tree", _unchanged), "leaves only": ("EUNOE_TREE_RECALL__ANCESTOR_WEIGHT=0", _leaves)}
    for name, (what, changed) in ways.items():
        yield Variant("MemTree", name, what, _strategy(Strategy.TREE), changed=changed)
        for place, third in enumerate(RELATIVES):
            what_third = f"the same, questions whose latest evidence is of the {third} of sessions"
            yield Variant(
                "MemTree", f"{name}, {third}", what_third, _strategy(Strategy.TREE), changed=changed, third=place
            )


def _keep_me_updated() -> Iterator[Variant]:
    paper, current = "Keep Me Updated", _strategy(Strategy.CURRENT)
    appended = IngestOptions("append only", (*MEMORY_UPDATES, "compress"), {"update": appending_stage})
    yield Variant(paper, "no memory", "nothing is shown", _simple(NOTHING))
    yield Variant(paper, "full history", "the whole conversation, whatever it costs", _simple(EVERYTHING))
    what = "stage update with an operator that says APPEND of every pair; strategy current"
    yield Variant(paper, "append only", what, current, appended)
    yield Variant(paper, "update", "strategy current", current)


def _creem(every: int) -> Iterator[Variant]:
    paper, stages = "CREEM", (*MEMORY_UPDATES, "compress", "blend")
    said = f"each {every}th utterance is blended; questions are asked in the last session, still open"
    whole = IngestOptions(f"blended {every}", stages, ask_every=every, is_open=True)
    unasked = replace(whole, name="no question", instead={"blend": unquestioning_stage})
    unrefined = replace(whole, name="no refining", instead={"blend": unrefining_stage})
    yield Variant(paper, "question, refinement, infusion", f"{said}; strategy insight", infused, whole)
    what = "stage blend searches memory by the last two utterances only"
    yield Variant(paper, "without question", what, infused, unasked)
    what = "stage blend with a blender whose insights are all New: nothing is replaced"
    yield Variant(paper, "without refinement", what, infused, unrefined)
    what = "as with EUNOE_INTAKE__BLEND=after_reply: the reply sees no insight of the open session"
    yield Variant(paper, "without infusion", what, uninfused, whole)


# ---- settings


def _unchanged(settings: StageSettings) -> StageSettings:
    return settings


def _respond(**updated: object) -> Changed:
    return lambda settings: settings.with_changes(RespondSettings, **updated)


def _keeping(keep: float) -> Changed:
    return lambda settings: settings.with_changes(CompressSettings, keep=keep)


def _alone(settings: StageSettings) -> StageSettings:
    return settings.with_changes(TimelineSettings, max_length=1)


def _leaves(settings: StageSettings) -> StageSettings:
    return settings.with_changes(TreeRecallSettings, ancestor_weight=0.0, aggregates_stand=False)


def adjusted(indexed: IndexedConversation, changed: Changed) -> IndexedConversation:
    """The same memory with other settings of retrieval."""
    dependencies = replace(indexed.dependencies, settings=changed(indexed.dependencies.settings))
    return replace(indexed, dependencies=dependencies, sources=recall_sources(dependencies))


# ---- retrieval


def _strategy(strategy: Strategy) -> Contexts:
    async def find(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
        return await indexed.context(strategy, question.question, budget, question.speaker or "")

    return find


def _simple(way: str) -> Contexts:
    async def find(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
        return await context_of(indexed, way, question.question, budget, question.speaker or "")

    return find


def _timelines(lay_out: Callable[[str], TimelineLayout]) -> Contexts:
    """Strategy timeline with another layout; ``lay_out`` makes it from the question."""

    async def find(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
        dependencies = indexed.dependencies
        finder = HybridSearch(dependencies.index, dependencies.embedder, dependencies.settings.of(RespondSettings))
        source = TimelineSource(
            dependencies.store, finder, dependencies.settings.of(TimelineSettings), lay_out(question.question)
        )
        asker = question.speaker or ""
        return await source.recall(Query(indexed.key, question.question, indexed.speakers, budget, asker))

    return find


def _unnamed(shown: Sequence[ShownTimeline]) -> Context:
    """Timelines without the names of relations."""
    bare = (replace(one, timeline=one.timeline.model_copy(update={"relations": ()})) for one in shown)
    return lay_out_timelines(list(bare))


def _broken(question: str) -> TimelineLayout:
    """The memories of timelines, each once with its day, in random order and without scores."""

    def lay_out(shown: Sequence[ShownTimeline]) -> Context:
        memories = list({memory.memory_id: memory for one in shown for memory in one.memories}.values())
        random.Random(question).shuffle(memories)
        rows = [memory_row(number, memory) for number, memory in enumerate(memories, 1)]
        printed = [f"{write_row(row)} ({write_day(row.at)})" for row in rows]
        return make_context(printed, [], rows)

    return lay_out


async def _as_many(indexed: IndexedConversation, question: EvalQuestion, budget: int) -> Context:
    limit = len((await indexed.context(Strategy.TIMELINE, question.question, budget)).rows)
    finder = HybridSearch(
        indexed.dependencies.index, indexed.dependencies.embedder, indexed.dependencies.settings.of(RespondSettings)
    )
    query = Query(indexed.key, question.question, indexed.speakers, budget)
    found = (await MemorySearch(indexed.dependencies.store, finder).find(query))[:limit]
    return lay_out_memories([show_memory(memory, score, Strategy.TIMELINE) for memory, score in found])
