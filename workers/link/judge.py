"""The port of a judge of relations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory
from eunoe.schemas.relations import Relation

CODE = "link/1"
"""Version of this stage's algorithms, recorded in provenance."""


@dataclass(frozen=True, slots=True)
class RelationPair:
    """A memory of an earlier session and a new one that is similar to it."""

    older: Memory
    newer: Memory
    similarity: float
    """Cosine of the texts without names."""


@dataclass(frozen=True, slots=True)
class RelationVerdict:
    """The relation from the older to the newer memory of a pair; `None` means no relation."""

    relation: Relation | None
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class RelationJudgement:
    """One verdict per pair, in the order of the pairs, and their provenance."""

    verdicts: tuple[RelationVerdict, ...]
    made_by: Provenance


class Judge(Protocol):
    """Assigns relations (THEANINE, section 2.1, phase I-2: Υ of equation 6)."""

    async def judge(self, pairs: Sequence[RelationPair]) -> RelationJudgement:
        """One verdict per pair. Raises `Unavailable` if a model endpoint is unavailable."""
        ...
