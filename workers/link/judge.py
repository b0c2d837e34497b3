"""What the stage asks of a judge of relations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory
from eunoe.schemas.relations import Relation

CODE = "link/1"
"""The version of this room's algorithms, as provenance tells it."""


@dataclass(frozen=True, slots=True)
class RelationPair:
    """A memory of an earlier session and a new one that is similar to it."""

    older: Memory
    newer: Memory
    similarity: float
    """Cosine of their texts without names."""


@dataclass(frozen=True, slots=True)
class RelationVerdict:
    """How the older memory of a pair leads to the newer one; None: not at all."""

    relation: Relation | None
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class RelationJudgement:
    """One verdict for each pair, in the order of the pairs, and what decided them."""

    verdicts: tuple[RelationVerdict, ...]
    made_by: Provenance


class Judge(Protocol):
    """Assigns relations (THEANINE, section 2.1, phase I-2: Υ of equation 6)."""

    async def judge(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        """A verdict for every pair of a session. Raises `Unavailable` when a model endpoint is."""
        ...
