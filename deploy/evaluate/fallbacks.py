"""Shares of the decisions of a language model that the offline rules made in its place, for reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from eunoe.deploy.evaluate.report import OFFLINE
from eunoe.schemas.model_ports import LanguageModel
from eunoe.workers.models.questions.metering import ItemCounts, ItemOutcome

Counts = Mapping[str, Mapping[str, int]]
"""Stage → outcome → items."""

TOLERATED = 0.05
"""Share of offline decisions above which the name of a row says so."""


@dataclass(frozen=True, slots=True)
class ItemRow:
    """The items of one stage by outcome."""

    stage: str
    items: int
    model: int
    corrected: int
    salvaged: int
    offline: int
    offline_share: float
    """From 0 to 1."""


def counts_of(language: LanguageModel | None) -> Counts:
    """The items that a model has decided so far; empty without a model."""
    items = getattr(language, "items", None)
    return items.document() if isinstance(items, ItemCounts) else {}


def since(before: Counts, after: Counts) -> Counts:
    """The items between two counts."""
    return {
        stage: {name: count - before.get(stage, {}).get(name, 0) for name, count in found.items()}
        for stage, found in after.items()
    }


def item_rows(counts: Counts) -> list[ItemRow]:
    """A row for each stage that decided an item."""
    return [
        ItemRow(stage=stage, items=sum(found.values()), **found, offline_share=round(offline_share({stage: found}), 3))
        for stage, found in counts.items()
        if any(found.values())
    ]


def offline_share(counts: Counts) -> float:
    """The share of all items that the offline rules decided, from 0 to 1; 0 for none."""
    total = sum(sum(found.values()) for found in counts.values())
    return sum(found.get(ItemOutcome.OFFLINE, 0) for found in counts.values()) / total if total else 0.0


def model_label(language: LanguageModel | None) -> str:
    """``offline``, or ``with model X``; over `TOLERATED` it names the share of decisions that were made offline."""
    return OFFLINE if language is None else f"with model {model_name(language)}"


def model_name(language: LanguageModel | None) -> str:
    """The name of the model, or `OFFLINE`; over `TOLERATED` with the share of decisions that were made offline."""
    return OFFLINE if language is None else with_share(language.name, counts_of(language))


def with_share(name: str, counts: Counts) -> str:
    """The name of a row; over `TOLERATED` with the share of decisions that were made offline."""
    share = offline_share(counts)
    return f"{name}, {share:.0%} decided offline" if share > TOLERATED else name


def item_lines(counts: Counts) -> list[str]:
    """A line for each stage, for the notes of a report."""
    return [
        f"Stage {row.stage}: {row.items} items; {row.model} by the model's first answer, {row.corrected} corrected,"
        f" {row.salvaged} salvaged, {row.offline} offline ({row.offline_share:.0%})."
        for row in item_rows(counts)
    ]
