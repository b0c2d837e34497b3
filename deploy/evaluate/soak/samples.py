"""The figures of a soak test over time."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from eunoe.deploy.evaluate.stats import percentile


@dataclass(frozen=True, slots=True)
class Timed:
    """A duration, and the second of the run at which it ended."""

    at_s: float
    took_s: float


@dataclass(frozen=True, slots=True)
class SoakSample:
    """The state of the system at one second of the run."""

    at_s: float
    sent: int
    """Utterances sent so far."""
    lag: int
    """Records that the stages had not committed, of all stages together."""
    dead_letters: int
    """Dead letters that came since the begin."""
    memory_mb: Mapping[str, float] = field(default_factory=dict)
    """By process; empty where the processes are not known."""
    cpu_percent: Mapping[str, float] = field(default_factory=dict)
    """By process, of one core, since the sample before."""


@dataclass(slots=True)
class SoakRecord:
    """All that a run has seen."""

    samples: list[SoakSample] = field(default_factory=list)
    asks: list[Timed] = field(default_factory=list)
    fresh: list[Timed] = field(default_factory=list)
    """From the end of a session to its memory."""
    failures: list[str] = field(default_factory=list)
    """Asks without an answer, and events that could not be sent, with the reason."""
    unremembered: int = 0
    """Sessions that ended and were not in memory at the end."""

    def document(self) -> dict[str, Any]:
        """All of it as JSON values; each sample with the percentiles of the asks and sessions since the one before."""
        before = 0.0
        rows = []
        for sample in self.samples:
            asks = between(self.asks, before, sample.at_s)
            fresh = between(self.fresh, before, sample.at_s)
            rows.append({**asdict(sample), **ask_figures(asks), **fresh_figures(fresh)})
            before = sample.at_s
        return {"samples": rows, "failures": self.failures[:100], "unremembered": self.unremembered}


def between(timed: Sequence[Timed], first_s: float, end_s: float) -> list[float]:
    """The durations that ended at or after one second of the run and before another."""
    at = [one.at_s for one in timed]
    return [one.took_s for one in timed[bisect_left(at, first_s) : bisect_left(at, end_s)]]


def ask_figures(took_s: Sequence[float]) -> dict[str, float | None]:
    """Percentiles in milliseconds; `None` without any ask."""
    return {f"ask_p{share}_ms": _rounded(percentile(took_s, share), 1000) for share in (50, 95, 99)}


def fresh_figures(took_s: Sequence[float]) -> dict[str, float | None]:
    """Percentiles in seconds; `None` without any session."""
    return {f"freshness_p{share}_s": _rounded(percentile(took_s, share), 1) for share in (50, 95)}


def _rounded(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 2)
