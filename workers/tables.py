"""The tables of a stage: what of them is part of the digest, and what stands in the vector index."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Collection


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The expected state of one document's point in the vector index."""

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
    """Gives the entry of a document (JSON), or `None` for a document without a point."""
    without_point: frozenset[str] = frozenset()
    """Ids of documents that never have a point: they need not be ids of points."""


@dataclass(frozen=True, slots=True)
class StageTables:
    """The tables of a stage."""

    digested: tuple[str, ...] = ()
    """Tables on which two runs over the same input agree; they are part of the state digest."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tables that are not part of the digest → the reason."""
    indexed: tuple[Indexed, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all tables."""
        return (*self.digested, *self.left_out)
