"""What a turn is blended from, and what comes of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from eunoe.schemas.events import Insight, Line, Provenance
from eunoe.schemas.memory import Memory

CODE = "blend/1"
"""The version of this room's algorithms, as provenance tells it."""

LAST = 2
"""Utterances that insights come from: the turn's and the one before it (CREEM, Algorithm 1)."""

NOBODY = Provenance(code=CODE, model="none")
"""Nothing was to be decided."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn."""

    lines: tuple[Line, ...]
    """The open session so far; the turn's utterance is the last one."""
    memories: tuple[Memory, ...] = ()
    """What was called up of earlier sessions and still held before this one, oldest first."""
    earlier: tuple[Insight, ...] = ()
    """The insights of this session's earlier turns, in order."""

    @property
    def latest(self) -> tuple[Line, ...]:
        """The last two utterances."""
        return self.lines[-LAST:]


@dataclass(frozen=True, slots=True)
class Blend:
    """The insights of a turn, in order, and what decided them."""

    insights: tuple[Insight, ...]
    made_by: Provenance


def speakers_of(lines: Iterable[Line]) -> list[str]:
    """Everybody who speaks, in order of appearance."""
    return list(dict.fromkeys(line.speaker for line in lines))
