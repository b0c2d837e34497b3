"""Base-level activation of memories: what was said lately and often comes to mind first (ACT-R).

B = ln(sum of (t_ask - t_use)^-d) over the uses of a memory, with d = 0.5 (Anderson and Schooler 1991). A use is an
utterance that speaks for the memory, or one that has repeated it: what is stored, at event time. Neither a clock nor a
counter goes in, so a replay gives the same. What came after the ask does not count. Citations by replies are left out:
what a reply cited depends on what was known when it was given.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import log
from typing import Final

from eunoe.schemas.memory import Memory

DECAY: Final = 0.5
SOONEST_S: Final = 60.0
"""Seconds that lie at least between a use and the ask."""


def uses_of(memory: Memory) -> list[datetime]:
    """Event times of a memory's evidence and of its repetitions, of each utterance or memory one."""
    return [*(line.at for line in memory.evidence), *(note.at for note in memory.reinforced)]


def activation(uses: Iterable[datetime], at: datetime) -> float | None:
    """The base-level activation at an ask; `None` where nothing was used until then."""
    ages = [(at - use).total_seconds() for use in uses if use <= at]
    return log(sum(max(age, SOONEST_S) ** -DECAY for age in ages)) if ages else None


def by_activation(
    found: Sequence[tuple[Memory, float]], at: datetime | None, weight: float, k: int
) -> list[tuple[Memory, float]]:
    """The found memories by their scores and, with a weight, by the rank of their activation; best first.

    As another ranking of reciprocal rank fusion: each rank adds weight / (``k`` + rank), equal activations share one.
    Unchanged for the weight 0, and without the time of the ask.
    """
    if not weight or at is None:
        return list(found)
    active = {memory.memory_id: activation(uses_of(memory), at) for memory, _ in found}
    levels = sorted({level for level in active.values() if level is not None}, reverse=True)
    ranks: dict[float | None, int] = {level: rank for rank, level in enumerate(levels, start=1)}
    scored = [
        (
            memory,
            round(score + (weight / (k + ranks[level]) if (level := active[memory.memory_id]) in ranks else 0.0), 6),
        )
        for memory, score in found
    ]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].memory_id))
