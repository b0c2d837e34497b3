"""Ablation of each paper's idea: variants that differ in one thing, over the same questions and budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.deploy.evaluate.answering import Said, replier_of
from eunoe.deploy.evaluate.corpus import answerable
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.evaluate.report import BarChart
from eunoe.deploy.evaluate.stats import interval, percent
from eunoe.deploy.evaluate.textscores import token_f1
from eunoe.deploy.progress import Advance
from eunoe.schemas.events import DEFAULT_AGENT, Line
from eunoe.workers.registry import StageSettings
from eunoe.workers.respond.context import Context
from eunoe.workers.respond.replier import ReplyTask
from tests.papers.variants import Variant, adjusted, variants


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One variant; recall and DCG in percent, means over questions."""

    paper: str
    variant: str
    what: str
    """Description of the variant in a line."""
    questions: int
    recall: float | None
    """Evidence that a row of the context cites; `None` where the variant has no question."""
    interval: tuple[float, float] | None
    dcg: float | None
    """Discounted cumulative gain of cited evidence, in the order of the sources' scores, over the ideal one."""
    token_f1: float | None
    """Token F1 of replies and right answers; `None` without replies, or without a model that the variant needs."""
    tokens: float


@dataclass(frozen=True, slots=True)
class _Judged:
    recall: float
    dcg: float
    f1: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """The options of an ablation."""

    budget: int
    limit: int | None
    """Questions of each conversation; `None` means all."""
    replies: bool
    """Whether to generate replies too."""
    settings: StageSettings
    blend_every: int = 5
    """For CREEM: every n-th utterance is blended."""


async def ablate(
    conversations: Sequence[LoadedConversation],
    models: EvalModels,
    plan: AblationPlan,
    advance: Advance = lambda: None,
) -> list[AblationRow]:
    """One row per variant; ``advance`` is called for each variant and conversation."""
    rows = list(variants(plan.blend_every))
    found: dict[int, list[_Judged]] = {place: [] for place in range(len(rows))}
    for loaded in conversations:
        indexed_conversations: dict[str, IndexedConversation] = {}
        for place, variant in enumerate(rows):
            indexed = await _indexed(loaded, models, plan, variant, indexed_conversations)
            found[place] += await _judge(adjusted(indexed, variant.changed), variant, plan)
            advance()
    return [_row(variant, found[place]) for place, variant in enumerate(rows)]


async def _indexed(
    loaded: LoadedConversation,
    models: EvalModels,
    plan: AblationPlan,
    variant: Variant,
    known: dict[str, IndexedConversation],
) -> IndexedConversation:
    """The conversation as memory of the variant; variants with equal options share it."""
    how = variant.how
    if how.name not in known:
        baselines = next((indexed.baselines for indexed in known.values()), None)
        known[how.name] = await IndexedConversation.build(loaded, models, plan.settings, how, baselines)
    return known[how.name]


async def _judge(indexed: IndexedConversation, variant: Variant, plan: AblationPlan) -> list[_Judged]:
    asked = answerable(indexed.loaded)[: plan.limit]
    if variant.third is not None:
        ages = _thirds(indexed.loaded)
        asked = [one for one in asked if max(ages[id_] for id_ in one.evidence) == variant.third]
    return [await _one(indexed, variant, plan, question) for question in asked]


def _thirds(loaded: LoadedConversation) -> Mapping[str, int]:
    """Utterance id → the third of the sessions that contains it, from 0."""
    sessions = {name: place for place, name in enumerate(dict.fromkeys(one.session_id for one in loaded.utterances))}
    return {one.utterance_id: 3 * sessions[one.session_id] // len(sessions) for one in loaded.utterances}


async def _one(indexed: IndexedConversation, variant: Variant, plan: AblationPlan, question: EvalQuestion) -> _Judged:
    context = await variant.find(indexed, question, plan.budget)
    gold = set(question.evidence)
    cited = {id_ for row in context.rows for id_ in row.cites}
    f1 = await _f1(indexed, variant, plan, question, context)
    return _Judged(len(gold & cited) / len(gold), dcg(ranked_ids(context), gold), f1, context.tokens)


def ranked_ids(context: Context) -> list[str]:
    """The cited utterances by the scores of their sources, best first; without sources, in order of appearance."""
    best = sorted(context.sources, key=lambda source: -source.score)
    ids = [id_ for source in best for id_ in source.utterance_ids] or [id_ for row in context.rows for id_ in row.cites]
    return list(dict.fromkeys(ids))


def dcg(ranked: Sequence[str], gold: set[str]) -> float:
    """Discounted cumulative gain of binary relevance, over that of the ideal order."""
    gain = sum(1 / math.log2(place + 2) for place, id_ in enumerate(ranked) if id_ in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(len(gold)))


async def _f1(
    indexed: IndexedConversation, variant: Variant, plan: AblationPlan, question: EvalQuestion, context: Context
) -> float | None:
    if not plan.replies or not question.answer or (variant.needs_model and indexed.dependencies.language is None):
        return None
    said = Said(question.question, question.speaker or "user", DEFAULT_AGENT)
    line = Line(utterance_id="question", speaker=said.asker, text=said.text, at=indexed.loaded.utterances[-1].at)
    speakers = tuple(dict.fromkeys((*indexed.speakers, said.asker)))
    reply = await replier_of(indexed).reply(ReplyTask(said.answers, line, (), context, speakers))
    return token_f1(reply.text, question.answer)


def _row(variant: Variant, judged: Sequence[_Judged]) -> AblationRow:
    f1 = [one.f1 for one in judged if one.f1 is not None]
    return AblationRow(
        paper=variant.paper,
        variant=variant.name,
        what=variant.what,
        questions=len(judged),
        recall=percent([one.recall for one in judged]) if judged else None,
        interval=interval([one.recall for one in judged]) if judged else None,
        dcg=percent([one.dcg for one in judged]) if judged else None,
        token_f1=round(sum(f1) / len(f1), 3) if f1 else None,
        tokens=round(sum(one.tokens for one in judged) / max(len(judged), 1), 1),
    )


def ablation_bars(rows: Sequence[AblationRow]) -> BarChart:
    """Recall and DCG, a group for each variant."""
    groups = tuple(f"{row.paper}: {row.variant}" for row in rows)
    series = {"recall": [row.recall or 0.0 for row in rows], "DCG": [row.dcg or 0.0 for row in rows]}
    return BarChart("Ablation", "percent", groups, series)


def describe_rows(rows: Sequence[AblationRow]) -> tuple[str, ...]:
    """A paragraph for the report, with a line of description for each row."""
    return ("\n".join(f"- {row.paper}, *{row.variant}*: {row.what}." for row in rows),)
