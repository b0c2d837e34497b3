"""Rows and report of the prompt cases."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from eunoe.deploy.evaluate.fallbacks import TOLERATED
from eunoe.deploy.evaluate.prompts.run import CaseResult, by, dollars_of
from eunoe.deploy.evaluate.report import OFFLINE, BarChart
from eunoe.deploy.evaluate.stats import interval, median, percent
from eunoe.deploy.settings import Settings
from eunoe.workers.models.questions.metering import ItemOutcome

ALL = "all"
SHOWN_FAILURES = 40


@dataclass(frozen=True, slots=True)
class PromptRow:
    """The cases of one stage by one model; shares in percent, tokens and dollars summed.

    The shares of items (pairs, nodes, windows, replies) by the way they were decided are `None` without a model.
    """

    model: str
    stage: str
    cases: int
    passed: float
    interval: tuple[float, float]
    """95 % bootstrap interval of ``passed``."""
    first: float | None
    """By the model's first answer."""
    corrected: float | None
    salvaged: float | None
    offline: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    """Median of a case."""
    dollars: float | None


@dataclass(frozen=True, slots=True)
class LanguageRow:
    """The cases of one language by one model; shares in percent."""

    model: str
    language: str
    cases: int
    passed: float
    interval: tuple[float, float]
    offline: float | None
    """Share of items that the offline rules decided for want of a valid answer."""


def stage_rows(results: Sequence[CaseResult], settings: Settings) -> list[PromptRow]:
    """A row for each model and stage, and one for all stages of each model."""
    rows = [_stage_row(model, stage, found, settings) for (model, stage), found in by(results, "stage").items()]
    models = dict.fromkeys(one.model for one in results)
    return rows + [_stage_row(model, ALL, _of(results, model), settings) for model in models]


def language_rows(results: Sequence[CaseResult]) -> list[LanguageRow]:
    """A row for each model and language."""
    return [
        LanguageRow(
            model=model,
            language=language,
            cases=len(found),
            passed=share(found),
            interval=interval([float(one.passed) for one in found]),
            offline=_ways(found)[OFFLINE],
        )
        for (model, language), found in by(results, "language").items()
    ]


def share(results: Iterable[CaseResult]) -> float:
    """The percentage of cases that pass."""
    return percent([float(one.passed) for one in results])


def _of(results: Sequence[CaseResult], model: str) -> list[CaseResult]:
    return [one for one in results if one.model == model]


def _ways(results: Sequence[CaseResult]) -> dict[str, float | None]:
    """Way → share of items in percent."""
    counts = Counter[str]()
    for one in results:
        for found in one.items.values():
            counts.update(found)
    total = counts.total()
    return {
        "first" if way is ItemOutcome.MODEL else way.value: round(100 * counts[way] / total, 1) if total else None
        for way in ItemOutcome
    }


def named_rows(rows: Sequence[PromptRow]) -> list[PromptRow]:
    """The rows with the share in the model's name where the offline rules made over a twentieth of the decisions."""
    return [
        replace(row, model=f"{row.model}, {row.offline:.0f}% decided offline")
        if row.offline is not None and row.offline > 100 * TOLERATED
        else row
        for row in rows
    ]


def _stage_row(model: str, stage: str, found: Sequence[CaseResult], settings: Settings) -> PromptRow:
    is_model = model != OFFLINE
    return PromptRow(
        model=model,
        stage=stage,
        cases=len(found),
        passed=share(found),
        interval=interval([float(one.passed) for one in found]),
        **_ways(found),
        prompt_tokens=sum(one.cost.prompt_tokens for one in found) if is_model else None,
        completion_tokens=sum(one.cost.completion_tokens for one in found) if is_model else None,
        seconds=round(median([one.cost.seconds for one in found]), 2) if is_model else None,
        dollars=dollars_of(found, settings) if is_model else None,
    )


def failures(results: Sequence[CaseResult]) -> list[dict[str, str]]:
    """The cases of models that do not pass: id, what differs, what was decided."""
    return [
        {
            "model": one.model,
            "case": one.case.id,
            "faults": "; ".join(one.decision.faults),
            "decided": one.decision.given,
        }
        for one in results
        if not one.passed and one.model != OFFLINE
    ]


def failure_lines(results: Sequence[CaseResult]) -> list[str]:
    """Markdown of the failures."""
    found = failures(results)
    lines = [f"- `{one['case']}` ({one['model']}): {one['faults']}. Decided: {one['decided']}" for one in found]
    return (["## Cases that do not pass", "\n".join(lines[:SHOWN_FAILURES])] if lines else []) + (
        [f"{len(lines) - SHOWN_FAILURES} more in the JSON."] if len(lines) > SHOWN_FAILURES else []
    )


def prompt_bars(rows: Sequence[PromptRow]) -> BarChart:
    """Bars of the pass rates by stage."""
    stages = list(dict.fromkeys(row.stage for row in rows))
    found = {(row.model, row.stage): row.passed for row in rows}
    series = {
        model: [found.get((model, stage), 0.0) for stage in stages]
        for model in dict.fromkeys(row.model for row in rows)
    }
    return BarChart("Prompt cases", "cases passed, percent", tuple(stages), series)
