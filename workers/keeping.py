"""What a stage says about the tables it keeps: which are remembered state, and which of them can be searched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Collection


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What the vector index must say of one document."""

    id: str
    text: str
    oldest: int
    """The session that its point was first written in."""
    newest: int
    """The session that changed the document last: the point is of this one, or of an earlier one that said the same."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A table whose documents stand in the vector index."""

    collection: Collection
    table: str
    entry: Callable[[str], IndexEntry | None]
    """The entry of a document (JSON); None for one that has no point."""


@dataclass(frozen=True, slots=True)
class StageTables:
    """The tables of a stage."""

    digested: tuple[str, ...] = ()
    """What two runs over the same input must agree on."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tables that are not part of it → why."""
    indexed: tuple[Indexed, ...] = ()
