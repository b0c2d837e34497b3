"""The input of a blender for one turn, and its result."""

from collections.abc import Iterable
from dataclasses import dataclass

from eunoe.schemas.events import Insight, Line, LookedUp, Provenance
from eunoe.schemas.memory import Memory

CODE = "blend/1"
"""Version of this stage's algorithms, recorded in provenance."""

LATEST = 2
"""Number of utterances that insights come from: the turn's and the one before it (CREEM, Algorithm 1)."""

NO_PROVENANCE = Provenance(code=CODE, model="none")
"""Provenance if there was nothing to decide."""


@dataclass(frozen=True, slots=True)
class BlendInput:
    """The dialogue and memories of one turn."""

    lines: tuple[Line, ...]
    """The open session so far; the turn's utterance is last."""
    memories: tuple[Memory, ...] = ()
    """Retrieved memories of earlier sessions that were current before this one, oldest first."""
    earlier: tuple[Insight, ...] = ()
    """Insights of this session's earlier turns, in order."""
    looked_up: LookedUp | None = None
    """The question that the memories were retrieved for; `None` in a first session."""

    @property
    def latest(self) -> tuple[Line, ...]:
        """The last two utterances."""
        return self.lines[-LATEST:]


@dataclass(frozen=True, slots=True)
class Blend:
    """The insights of a turn, in order, and their provenance."""

    insights: tuple[Insight, ...]
    made_by: Provenance
    looked_up: LookedUp | None = None
    """The question asked of memory; `None` if none was."""


def speakers_of(lines: Iterable[Line]) -> list[str]:
    """The speakers, in order of appearance."""
    return list(dict.fromkeys(line.speaker for line in lines))
