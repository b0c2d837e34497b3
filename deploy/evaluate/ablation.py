"""What each paper's idea adds: one table of rows that differ in one thing, over the same questions and budget."""

import math
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eunoe.deploy.demo.loaded import LoadedConversation, Question
from eunoe.deploy.evaluate.answering import EVERYTHING, NOTHING, Said, context_of, fitting, lay_out, replier_of
from eunoe.deploy.evaluate.corpus import answerable
from eunoe.deploy.evaluate.library import Library
from eunoe.deploy.evaluate.report import Bars
from eunoe.deploy.evaluate.stats import interval, percent
from eunoe.deploy.evaluate.textscores import token_f1
from eunoe.schemas.events import DEFAULT_AGENT, Line, Strategy
from eunoe.schemas.memory import Memory
from eunoe.schemas.ports import Embedder, LanguageModel
from eunoe.workers.registry import StageSettings, recall_sources
from eunoe.workers.respond.context import Context, write_row
from eunoe.workers.respond.memories import MemorySearch, lay_out_memories, show_memory
from eunoe.workers.respond.replier import ReplyTask
from eunoe.workers.respond.settings import Refine, Retriever
from eunoe.workers.respond.sources import Finder, Query

KEEPS = (1.0, 0.9, 0.75, 0.5)
"""Keep rates of denoising; 1: none."""
RELATIVES = ("oldest third", "middle third", "latest third")

Contexts = Callable[[Library, str, int], Awaitable[Context]]
"""(library, question, budget) → memory."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A row of the table: a paper, a variant, and how its memory is made and found."""

    paper: str
    name: str
    find: Contexts
    keep: float | None = None
    """Of denoising, where memory is made anew for it."""
    refine: Refine | None = None
    needs_model: bool = False
    """Offline it is no other than the variant above it."""
    third: int | None = None
    """Only questions whose latest evidence lies in this third of the sessions, from 0."""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One variant; recall and DCG in percent, means over questions."""

    paper: str
    variant: str
    questions: int
    recall: float
    """Evidence that a shown row says or rests on."""
    interval: tuple[float, float]
    dcg: float
    """Discounted cumulative gain of cited evidence, in the order of sources' scores, over the ideal one."""
    token_f1: float | None
    """Of the reply with the right answer; None: not asked for replies, or the variant needs a model."""
    tokens: float


@dataclass(frozen=True, slots=True)
class _Judged:
    recall: float
    dcg: float
    f1: float | None
    tokens: int


def _strategy(strategy: Strategy, retriever: Retriever | None = None) -> Contexts:
    async def find(library: Library, question: str, budget: int) -> Context:
        if retriever is None:
            return await library.context(strategy, question, budget)
        respond = library.kit.settings.respond.model_copy(update={"retriever": retriever})
        settings = library.kit.settings.model_copy(update={"respond": respond})
        sources = recall_sources(replace(library.kit, settings=settings))
        return await replace(library, sources=sources).context(strategy, question, budget)

    return find


def _baseline(name: str) -> Contexts:
    async def find(library: Library, question: str, budget: int) -> Context:
        return lay_out(fitting(await library.baselines.rank(name, question), budget))

    return find


def _simple(way: str) -> Contexts:
    async def find(library: Library, question: str, budget: int) -> Context:
        return await context_of(library, way, question, budget)

    return find


def _memories(current_only: bool, shuffled: bool = False) -> Contexts:
    """As many memories as strategies `timeline` or `current` show, each by itself."""

    async def find(library: Library, question: str, budget: int) -> Context:
        from_query = await _found(library, question, budget)
        limit = library.kit.settings.respond.current
        if not current_only:
            limit = max(1, len((await library.context(Strategy.TIMELINE, question, budget)).rows))
        held = [memory for memory in from_query if not current_only or memory.ending is None][:limit]
        if shuffled:
            random.Random(question).shuffle(held)  # noqa: S311 - the same again for the same question
        return lay_out_memories(
            [show_memory(memory, 1.0 / (place + 1), Strategy.CURRENT) for place, memory in enumerate(held)]
        )

    return find


async def _found(library: Library, question: str, budget: int) -> list[Memory]:
    finder = Finder(library.kit.index, library.kit.embedder, library.kit.settings.respond)
    query = Query(library.key, question, library.speakers, budget)
    return [memory for memory, _ in await MemorySearch(library.kit.store, finder).find(query)]


def _shuffled_timelines() -> Contexts:
    """The rows of timelines in an order that tells nothing."""

    async def find(library: Library, question: str, budget: int) -> Context:
        context = await library.context(Strategy.TIMELINE, question, budget)
        rows = list(context.rows)
        random.Random(question).shuffle(rows)  # noqa: S311 - the same again for the same question
        numbered = tuple(replace(row, number=place) for place, row in enumerate(rows, 1))
        return replace(context, rows=numbered, text="\n".join(map(write_row, numbered)))

    return find


def _leaves() -> Contexts:
    async def find(library: Library, question: str, budget: int) -> Context:
        recall = library.kit.settings.tree_recall.model_copy(update={"ancestor_weight": 0.0})
        settings = library.kit.settings.model_copy(update={"tree_recall": recall})
        sources = recall_sources(replace(library.kit, settings=settings))
        return await replace(library, sources=sources).context(Strategy.TREE, question, budget)

    return find


def variants() -> Iterator[Variant]:
    """All rows, paper by paper; the first of each is the whole idea."""
    for unit in ("turns", "sessions"):
        for ranking in ("bm25", "dense", "rrf"):
            yield Variant("SeCom", f"{unit}, {ranking}", _baseline(f"{unit}-{ranking}"))
    for retriever in Retriever:
        yield Variant("SeCom", f"segments, {retriever}", _strategy(Strategy.SEGMENT, retriever))
    for keep in KEEPS:
        named = "no denoising" if keep == 1 else f"keep rate {keep}"
        yield Variant("SeCom", f"segments, rrf, {named}", _strategy(Strategy.SEGMENT), keep=keep)
    yield Variant("THEANINE", "timelines", _strategy(Strategy.TIMELINE))
    yield Variant("THEANINE", "no refinement", _strategy(Strategy.TIMELINE), refine=Refine.OFF, needs_model=True)
    yield Variant("THEANINE", "shuffled timelines", _shuffled_timelines())
    yield Variant("THEANINE", "no relations: as many memories by time", _memories(current_only=False))
    yield Variant("THEANINE", "flat retrieval, same k, no order", _memories(current_only=False, shuffled=True))
    yield Variant("MemTree", "tree", _strategy(Strategy.TREE))
    yield Variant("MemTree", "leaves only", _leaves())
    for place, named in enumerate(RELATIVES):
        yield Variant("MemTree", f"tree, evidence in the {named}", _strategy(Strategy.TREE), third=place)
    yield Variant("Keep Me Updated", "no memory", _simple(NOTHING))
    yield Variant("Keep Me Updated", "full history", _simple(EVERYTHING))
    yield Variant("Keep Me Updated", "append only", _append_only())
    yield Variant("Keep Me Updated", "update", _strategy(Strategy.CURRENT))
    yield Variant("all", "fused", _strategy(Strategy.FUSED))


def _append_only() -> Contexts:
    """As if nothing had ever been superseded or retired."""

    async def find(library: Library, question: str, budget: int) -> Context:
        found = (await _found(library, question, budget))[: library.kit.settings.respond.current]
        return lay_out_memories(
            [show_memory(one, 1.0 / (place + 1), Strategy.CURRENT) for place, one in enumerate(found)]
        )

    return find


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """What is compared."""

    budget: int
    limit: int | None
    """Questions of each conversation; None: all."""
    replies: bool
    """Whether replies are asked for."""
    settings: StageSettings
    language: LanguageModel | None = None


async def ablate(
    conversations: Sequence[LoadedConversation],
    embedder: Embedder,
    plan: AblationPlan,
    told: Callable[[], None] = lambda: None,
) -> list[AblationRow]:
    """One row per variant; ``told`` is called for each variant and conversation."""
    found: dict[tuple[str, str], list[_Judged]] = {}
    rows = list(variants())
    for loaded in conversations:
        whole = await Library.grown(loaded, embedder, plan.settings, plan.language)
        for variant in rows:
            library = whole if variant.keep is None else await _kept(whole, variant.keep, plan)
            if variant.refine is not None:
                library = _refined(library, variant.refine)
            found.setdefault((variant.paper, variant.name), []).extend(await _judge(library, variant, plan))
            told()
    return [_row(paper, name, judged) for (paper, name), judged in found.items()]


async def _kept(library: Library, keep: float, plan: AblationPlan) -> Library:
    """The conversation made memory again with another keep rate; for segments no model is needed."""
    compress = plan.settings.compress.model_copy(update={"keep": keep})
    settings = plan.settings.model_copy(update={"compress": compress})
    return await Library.grown(library.loaded, library.kit.embedder, settings, None)


def _refined(library: Library, refine: Refine) -> Library:
    respond = library.kit.settings.respond.model_copy(update={"refine": refine})
    return replace(
        library, kit=replace(library.kit, settings=library.kit.settings.model_copy(update={"respond": respond}))
    )


async def _judge(library: Library, variant: Variant, plan: AblationPlan) -> list[_Judged]:
    asked = answerable(library.loaded)[: plan.limit]
    if variant.third is not None:
        ages = _thirds(library.loaded)
        asked = [one for one in asked if max(ages[id_] for id_ in one.evidence) == variant.third]
    return [await _one(library, variant, plan, question) for question in asked]


def _thirds(loaded: LoadedConversation) -> Mapping[str, int]:
    """Utterance id → the third of the sessions that it was said in, from 0."""
    sessions = {name: place for place, name in enumerate(dict.fromkeys(one.session_id for one in loaded.utterances))}
    return {one.utterance_id: 3 * sessions[one.session_id] // len(sessions) for one in loaded.utterances}


async def _one(library: Library, variant: Variant, plan: AblationPlan, question: Question) -> _Judged:
    context = await variant.find(library, question.question, plan.budget)
    gold = set(question.evidence)
    cited = {id_ for row in context.rows for id_ in row.cites}
    f1 = await _f1(library, variant, plan, question, context)
    return _Judged(len(gold & cited) / len(gold), dcg(ranked_ids(context), gold), f1, context.tokens)


def ranked_ids(context: Context) -> list[str]:
    """The cited utterances by the scores of their sources, best first; where there are none, as they stand."""
    best = sorted(context.sources, key=lambda source: -source.score)
    ids = [id_ for source in best for id_ in source.utterance_ids] or [id_ for row in context.rows for id_ in row.cites]
    return list(dict.fromkeys(ids))


def dcg(ranked: Sequence[str], gold: set[str]) -> float:
    """Discounted cumulative gain of binary relevance, over that of the ideal order."""
    gain = sum(1 / math.log2(place + 2) for place, id_ in enumerate(ranked) if id_ in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(len(gold)))


async def _f1(
    library: Library, variant: Variant, plan: AblationPlan, question: Question, context: Context
) -> float | None:
    if not plan.replies or not question.answer or (variant.needs_model and library.kit.language is None):
        return None
    said = Said(question.question, question.speaker or "user", DEFAULT_AGENT)
    line = Line(utterance_id="question", speaker=said.asker, text=said.text, at=library.loaded.utterances[-1].at)
    speakers = tuple(dict.fromkeys((*library.speakers, said.asker)))
    reply = await replier_of(library).reply(ReplyTask(said.answers, line, (), context, speakers))
    return token_f1(reply.text, question.answer)


def _row(paper: str, name: str, judged: Sequence[_Judged]) -> AblationRow:
    f1 = [one.f1 for one in judged if one.f1 is not None]
    return AblationRow(
        paper=paper,
        variant=name,
        questions=len(judged),
        recall=percent([one.recall for one in judged]),
        interval=interval([one.recall for one in judged]),
        dcg=percent([one.dcg for one in judged]),
        token_f1=round(sum(f1) / len(f1), 3) if f1 else None,
        tokens=round(sum(one.tokens for one in judged) / max(len(judged), 1), 1),
    )


def ablation_bars(rows: Sequence[AblationRow]) -> Bars:
    """Recall and DCG, a group for each variant."""
    groups = tuple(f"{row.paper}: {row.variant}" for row in rows)
    return Bars(
        "Ablation", "percent", groups, {"recall": [row.recall for row in rows], "DCG": [row.dcg for row in rows]}
    )
