"""Measures recall of evidence in the memory of a prompt, at several token budgets.

Every conversation goes through the stages offline, over the in-memory stores. Each question is then asked of each
strategy and of simple retrievers: turns, groups of four turns and sessions by BM25, cosine and both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from eunoe.deploy.datasets.loaded import EvalQuestion, LoadedConversation
from eunoe.deploy.evaluate.baselines import BASELINES, PackedMemory, pack_passages
from eunoe.deploy.evaluate.corpus import answerable
from eunoe.deploy.evaluate.gold import GoldPassages, Shares, shares_of
from eunoe.deploy.evaluate.indexed import IndexedConversation
from eunoe.deploy.evaluate.models import EvalModels
from eunoe.deploy.evaluate.report import BarChart
from eunoe.deploy.evaluate.stats import interval, median, percent
from eunoe.deploy.progress import Advance
from eunoe.schemas.events import Strategy
from eunoe.workers.registry import StageSettings

BUDGETS = (500, 1000, 2000, 4000)
ALL = "all"


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    """The retrievers and budgets to compare."""

    budgets: tuple[int, ...] = BUDGETS
    """Tokens."""
    strategies: tuple[Strategy, ...] = tuple(Strategy)
    baselines: tuple[str, ...] = BASELINES
    settings: StageSettings = field(default_factory=StageSettings)
    errata: Path | None = None
    """A file of corrected evidence."""

    @property
    def ways(self) -> tuple[str, ...]:
        """The names of all retrievers, strategies first."""
        return (*(strategy.value for strategy in self.strategies), *self.baselines)


@dataclass(frozen=True, slots=True)
class RetrievalRow:
    """Recall of evidence (percent, mean over questions) of one retriever for one kind of question.

    Tuples have an entry for each budget.
    """

    retriever: str
    kind: str
    questions: int
    budgets: tuple[int, ...]
    recall: tuple[float, ...]
    """Gold passages in the context."""
    interval: tuple[tuple[float, float], ...]
    """The 95 % bootstrap interval of ``recall`` over questions."""
    whole: tuple[float, ...]
    """Evidence whose full text is in the context."""
    cited: tuple[float, ...]
    """Evidence that a row of the context cites."""
    corrected: tuple[float, ...] | None
    """``recall`` of the corrected evidence; `None` where there is none."""
    both_roles: tuple[float, ...] | None
    """Questions with two roles of evidence, of which both are shown; `None` where there are none."""
    others: tuple[float, ...] | None
    """``recall`` of what others than the asker said; `None` where no asker is known."""
    fill: tuple[float, ...]
    """Tokens of the context in percent of the budget."""
    least_fill: tuple[float, ...]
    """The same, of the context that is filled least."""
    most_tokens: tuple[int, ...]
    """Tokens of the longest context."""
    milliseconds: float
    """The median time of a question, over all budgets."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of one retriever for one question under one budget."""

    retriever: str
    budget: int
    kind: str
    shares: Shares
    tokens: int
    milliseconds: float


async def measure(
    loaded: LoadedConversation, models: EvalModels, plan: RetrievalPlan, advance: Advance = lambda: None
) -> list[Shown]:
    """Ask every question of every retriever under every budget; ``advance`` is called per question and retriever."""
    blends = Strategy.INSIGHT in plan.strategies
    build = IndexedConversation.with_insights if blends else IndexedConversation.build
    indexed = await build(loaded, models, plan.settings)
    gold = GoldPassages(loaded)
    found: list[Shown] = []
    for question in answerable(loaded):
        for way in plan.ways:
            for budget, recalled, spent in await recalls(indexed, way, question, plan.budgets):
                found.append(
                    Shown(
                        way,
                        budget,
                        question.category or "",
                        shares_of(question, gold, recalled),
                        recalled.tokens,
                        spent,
                    )
                )
            advance()
    return found


async def recalls(
    indexed: IndexedConversation, way: str, asked: EvalQuestion, budgets: Sequence[int]
) -> list[tuple[int, PackedMemory, float]]:
    """The contexts for a question of one retriever; for each budget: (budget, context, milliseconds)."""
    found = []
    for budget in budgets:
        start = perf_counter()
        if way in BASELINES:
            recalled = pack_passages(await indexed.baselines.rank(way, asked.question), budget)
        else:
            recalled = await indexed.recall(Strategy(way), asked.question, budget, asked.speaker or "")
        found.append((budget, recalled, 1000 * (perf_counter() - start)))
    return found


def retrieval_rows(found: Sequence[Shown], plan: RetrievalPlan) -> list[RetrievalRow]:
    """One row for each retriever and kind of question, all kinds last."""
    kinds = sorted({shown.kind for shown in found} - {""})
    return [
        _row(way, kind, [one for one in found if one.retriever == way and kind in (ALL, one.kind)], plan.budgets)
        for way in plan.ways
        for kind in (*kinds, ALL)
    ]


def _row(way: str, kind: str, found: Sequence[Shown], budgets: tuple[int, ...]) -> RetrievalRow:
    at = [[one for one in found if one.budget == budget] for budget in budgets]
    fills = [[one.tokens / one.budget for one in shown] for shown in at]
    return RetrievalRow(
        retriever=way,
        kind=kind,
        questions=len(at[0]),
        budgets=budgets,
        recall=tuple(percent([one.shares.passages for one in shown]) for shown in at),
        interval=tuple(interval([one.shares.passages for one in shown]) for shown in at),
        whole=tuple(percent([one.shares.whole for one in shown]) for shown in at),
        cited=tuple(percent([one.shares.cited for one in shown]) for shown in at),
        corrected=_percents([[one.shares.corrected for one in shown] for shown in at]),
        both_roles=_percents([[one.shares.roles for one in shown] for shown in at]),
        others=_percents([[one.shares.others for one in shown] for shown in at]),
        fill=tuple(map(percent, fills)),
        least_fill=tuple(percent([min(fill, default=0.0)]) for fill in fills),
        most_tokens=tuple(max((one.tokens for one in shown), default=0) for shown in at),
        milliseconds=median([one.milliseconds for one in found]),
    )


def _percents(shares: Sequence[Sequence[float | None]]) -> tuple[float, ...] | None:
    """The means of the shares that there are, in percent; `None` where there is none."""
    there = [[share for share in row if share is not None] for row in shares]
    return tuple(map(percent, there)) if any(there) else None


def retrieval_bars(rows: Sequence[RetrievalRow]) -> BarChart:
    """Recall over budgets, a line for each retriever."""
    overall = [row for row in rows if row.kind == ALL]
    groups = tuple(map(str, overall[0].budgets)) if overall else ()
    return BarChart("Evidence inside the budget", "percent", groups, {row.retriever: row.recall for row in overall})
