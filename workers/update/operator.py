"""What the stage asks of an operator: one operation for each pair of an old memory and a new sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory

CODE = "update/1"
"""The version of this room's algorithms, as provenance tells it."""


class Operation(StrEnum):
    """What an old memory m and a new sentence s do to each other (Keep Me Updated, section 4.3 and appendix C.2)."""

    PASS = "PASS"  # noqa: S105 - an operation
    """m says all that s says: m stays."""
    REPLACE = "REPLACE"
    """s says what holds now, or all that m says and more: s stays."""
    APPEND = "APPEND"
    """Both stay."""
    DELETE = "DELETE"
    """s completes what m tells: neither is of use any more."""
    FUSE = "FUSE"
    """Each says something of the same matter that the other lacks: one new sentence says it all."""


@dataclass(frozen=True, slots=True)
class OperationPair:
    """A memory that holds and a new sentence about the same speaker."""

    old: Memory
    new: Memory

    @property
    def ids(self) -> tuple[str, str]:
        """Both memory ids."""
        return self.old.memory_id, self.new.memory_id


@dataclass(frozen=True, slots=True)
class OperationVerdict:
    """What is decided for one pair."""

    operation: Operation
    because: str = ""
    fused: str = ""
    """The one new sentence, of FUSE only."""
    suspect: bool = False
    """True: the two may contradict each other, but not surely enough to act."""


APPENDED = OperationVerdict(Operation.APPEND)

Verdicts = Mapping[tuple[str, str], OperationVerdict]
"""By the ids of m and s; a pair that is not there is APPEND."""


@dataclass(frozen=True, slots=True)
class OperationJudgement:
    """One verdict for each pair, in the order of the pairs, and what decided them."""

    verdicts: tuple[OperationVerdict, ...]
    made_by: Provenance


class Operator(Protocol):
    """Decides operations."""

    @property
    def reads_meaning(self) -> bool:
        """True: it can tell that other words say the same; False: by near-identical words only."""
        ...

    async def operate(self, pairs: Sequence[OperationPair]) -> OperationJudgement:
        """A verdict for every pair of a session. Raises `Unavailable` when a model endpoint is."""
        ...
