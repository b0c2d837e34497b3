"""Metrics of binary scores: accuracy, F1 and false positive rate of a threshold, and areas under the ROC curve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored item, with its label and its length."""

    score: float
    positive: bool
    length: int


def at_threshold(scored: Sequence[Scored], threshold: float) -> tuple[float, float, float]:
    """(accuracy, F1, false positive rate) where a score of at least ``threshold`` is positive."""
    hits = sum(each.score >= threshold and each.positive for each in scored)
    false = sum(each.score >= threshold and not each.positive for each in scored)
    positives = sum(each.positive for each in scored)
    negatives = len(scored) - positives
    accuracy = (hits + negatives - false) / len(scored) if scored else 0.0
    f1 = 2 * hits / (hits + false + positives) if hits else 0.0
    return accuracy, f1, false / negatives if negatives else 0.0


def best_at_rate(scored: Sequence[Scored], rate: float) -> tuple[float, float, float]:
    """`at_threshold` at the lowest threshold with a false positive rate of at most ``rate``."""
    for threshold in sorted({each.score for each in scored}):
        found = at_threshold(scored, threshold)
        if found[2] <= rate:
            return found
    return at_threshold(scored, float("inf"))


def auc(scored: Iterable[Scored]) -> float:
    """The area under the ROC curve; 0.5 where there are no positives or no negatives."""
    wins, pairs = _wins(list(scored))
    return wins / pairs if pairs else 0.5


def auc_within(scored: Sequence[Scored]) -> float:
    """As `auc`, over pairs of equal length only."""
    parts = [_wins([each for each in scored if each.length == length]) for length in {each.length for each in scored}]
    pairs = sum(part[1] for part in parts)
    return sum(part[0] for part in parts) / pairs if pairs else 0.5


def _wins(scored: Sequence[Scored]) -> tuple[float, int]:
    yes = [each.score for each in scored if each.positive]
    no = [each.score for each in scored if not each.positive]
    return sum((a > b) + 0.5 * (a == b) for a in yes for b in no), len(yes) * len(no)
