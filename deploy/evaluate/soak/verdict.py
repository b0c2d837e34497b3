"""Judges a soak test: bounds over the whole run, and nothing that grows from its second quarter to its last."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from eunoe.deploy.evaluate.soak.plan import SoakLimits
from eunoe.deploy.evaluate.soak.samples import SoakRecord, SoakSample, Timed, between
from eunoe.deploy.evaluate.stats import percentile

STATELESS = ("worker", "gateway")
"""Begins of the names of processes whose memory must be flat; servers hold the data, which grows."""
_LEAST = 4
"""Values that a quarter must have for a comparison."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition and its figures."""

    what: str
    held: bool
    figures: str


def judge(record: SoakRecord, limits: SoakLimits, seconds: float) -> list[Judgement]:
    """The conditions of a run whose traffic took ``seconds``."""
    return [
        _count("events and asks that failed", len(record.failures)),
        _count("dead letters", record.samples[-1].dead_letters if record.samples else 0),
        _count("sessions not remembered at the end", record.unremembered),
        _count("records left at the end", record.samples[-1].lag if record.samples else 0),
        _bound("asks, 95 %, ms", _p95(record.asks, 1000), limits.ask_p95_ms),
        _bound("session to memory, 95 %, s", _p95(record.fresh, 1), limits.freshness_p95_s),
        _steady("asks, 95 %, ms", record.asks, seconds, (limits.growth, limits.slack_ms), 1000),
        _steady("session to memory, 95 %, s", record.fresh, seconds, (limits.growth, limits.slack_ms / 100), 1),
        _lag(record.samples, limits, seconds),
        *_memory(record.samples, limits, seconds),
    ]


def _count(what: str, count: int) -> Judgement:
    return Judgement(what, count == 0, str(count))


def _p95(timed: Sequence[Timed], factor: float) -> float | None:
    found = percentile([one.took_s for one in timed], 95)
    return None if found is None else found * factor


def _bound(what: str, found: float | None, limit: float) -> Judgement:
    return Judgement(what, found is not None and found <= limit, f"{_shown(found)} of {limit:g}")


def _steady(what: str, timed: Sequence[Timed], seconds: float, growth: tuple[float, float], factor: float) -> Judgement:
    ordered = sorted(timed, key=lambda one: one.at_s)
    # after the traffic all open sessions end at once: that burst is no part of the comparison
    quarters = (between(ordered, seconds / 4, seconds / 2), between(ordered, seconds * 3 / 4, seconds))
    before, after = ([took * factor for took in quarter] for quarter in quarters)
    return _grown(f"{what}, second quarter to last", before, after, growth)


def _grown(what: str, before: Sequence[float], after: Sequence[float], growth: tuple[float, float]) -> Judgement:
    """Whether the 95th percentile grew by no more than a factor and a slack."""
    if min(len(before), len(after)) < _LEAST:
        return Judgement(what, held=True, figures="too few to compare")
    first, last = percentile(before, 95) or 0.0, percentile(after, 95) or 0.0
    factor, slack = growth
    return Judgement(what, last <= first * factor + slack, f"{_shown(first)} to {_shown(last)}")


def _lag(samples: Sequence[SoakSample], limits: SoakLimits, seconds: float) -> Judgement:
    lags = [sample.lag for sample in samples if seconds * 3 / 4 <= sample.at_s <= seconds]
    found = median(lags) if lags else 0
    return Judgement("records left, median of the last quarter", found <= limits.lag, f"{found:g} of {limits.lag}")


def _memory(samples: Sequence[SoakSample], limits: SoakLimits, seconds: float) -> list[Judgement]:
    names = sorted({name for sample in samples for name in sample.memory_mb if name.startswith(STATELESS)})
    return [_memory_of(name, samples, limits, seconds) for name in names]


def _memory_of(name: str, samples: Sequence[SoakSample], limits: SoakLimits, seconds: float) -> Judgement:
    def used(first: float, end: float) -> list[float]:
        return [one.memory_mb[name] for one in samples if first <= one.at_s <= end and name in one.memory_mb]

    before, after = used(seconds / 4, seconds / 2), used(seconds * 3 / 4, seconds)
    growth = (limits.memory_growth, limits.memory_slack_mb)
    return _grown(f"memory of {name}, MB, second quarter to last", before, after, growth)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
