"""The port of an operator: one operation for each pair of an old memory and a new sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory

CODE = "update/1"
"""Version of this stage's algorithms, recorded in provenance."""


class Operation(StrEnum):
    """The relation of an old memory m and a new sentence s (Keep Me Updated, section 4.3 and appendix C.2)."""

    PASS = "PASS"  # noqa: S105 - an operation
    """m says all that s says: m stays."""
    REPLACE = "REPLACE"
    """s says what is true now, or all that m says and more: s stays."""
    APPEND = "APPEND"
    """Both stay."""
    DELETE = "DELETE"
    """s says that the state in m is over: neither stays."""
    FUSE = "FUSE"
    """Each says something about the same matter that the other lacks: one new sentence replaces both."""


@dataclass(frozen=True, slots=True)
class OperationPair:
    """A current memory and a new sentence about the same speaker."""

    old: Memory
    new: Memory

    @property
    def ids(self) -> tuple[str, str]:
        """The ids of old memory and new sentence."""
        return self.old.memory_id, self.new.memory_id


@dataclass(frozen=True, slots=True)
class OperationVerdict:
    """The decision for one pair."""

    operation: Operation
    because: str = ""
    fused: str = ""
    """The new sentence, for FUSE only."""
    suspect: bool = False
    """Whether the two may contradict each other, but not surely enough to act."""


APPENDED = OperationVerdict(Operation.APPEND)

Verdicts = Mapping[tuple[str, str], OperationVerdict]
"""By the ids of m and s; a missing pair means APPEND."""


@dataclass(frozen=True, slots=True)
class OperationJudgement:
    """One verdict per pair, in the order of the pairs, and their provenance."""

    verdicts: tuple[OperationVerdict, ...]
    made_by: Provenance


class Operator(Protocol):
    """Decides operations."""

    @property
    def reads_meaning(self) -> bool:
        """Whether it recognises paraphrases; if not, only near-identical words."""
        ...

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """One verdict per pair. Raises `Unavailable` if a model endpoint is unavailable."""
        ...
