"""The documents of the tree."""

from typing import Final, Self

import orjson
from pydantic import Field, model_validator

from eunoe.schemas.base import Identifier, Name, Time, Value, absent
from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Provenance
from eunoe.workers.tables import Indexed, IndexEntry, StageTables

NAME = "tree"
CODE = "tree/3"
"""Version of this stage's algorithms, recorded in provenance."""

NODES, VECTORS, SUMS, LEAVES, TERMS, STATS = "nodes", "vectors", "sums", "leaves", "terms", "stats"
ROOT = "root"


class TreeNode(Value):
    """A node: a leaf holds one memory, an inner node the aggregate of those below it.

    The root has children, but neither text nor vector (MemTree, section 3).
    """

    node_id: Identifier
    parent: Identifier | None = None
    """`None` for the root."""
    children: tuple[Identifier, ...] = ()
    depth: int = Field(default=0, ge=0)
    """0 for the root."""
    descendants: int = Field(default=0, ge=0)
    """Number of leaves below it; 0 for a leaf."""
    text: str = ""
    entry: Identifier | None = None
    """The id of the memory that a leaf holds."""
    ended: bool = False
    """Whether the leaf's memory has ended."""
    said_by: Identifier | None = absent()
    """The memory that says all that the ended memory of a leaf says; `None` where that no longer holds."""
    current: int | None = Field(default=None, ge=0, exclude_if=lambda value: value is None)
    """Number of leaves below an inner node that have not ended; `None` for the root and for leaves."""
    speakers: tuple[Name, ...] = ()
    """All speakers below it, in order of appearance."""
    first_at: Time | None = None
    """The earliest event time below it."""
    last_at: Time | None = None
    """The latest event time below it."""
    created: int = Field(default=0, ge=0)
    """The session that created it; 0 for the root."""
    changed: int = Field(default=0, ge=0)
    """The session that changed it last."""
    made_by: Provenance | None = None
    """The provenance of its text; `None` for the root and for leaves, whose entries have their own."""

    @model_validator(mode="after")
    def _is_counted(self) -> Self:
        if self.children and self.parent is not None and self.current is None:
            raise ValueError("an inner node needs the number of its current leaves")
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it holds an entry."""
        return self.entry is not None


class StoredVector(Value):
    """A vector: in `VECTORS` a unit vector, in `SUMS` the sum over the current leaves below."""

    levels: bytes
    """Signed bytes, see `eunoe.workers.models.local.vectors.levels`."""
    largest: float | None = absent()
    """The largest component of a sum, in absolute terms; `None` for a unit vector."""

    def has(self, dimensions: int) -> bool:
        """Whether it is a vector of so many components: an empty document is of the form, too."""
        return len(self.levels) == dimensions


class LeafRef(Value):
    """The node that holds an entry."""

    node_id: Identifier


class LeafFrequency(Value):
    """The number of leaves that contain a term."""

    leaves: int


class TreeStats(Value):
    """Statistics of a tree."""

    session: int
    """The last applied session."""
    leaves: int
    nodes: int
    """All nodes except the root."""
    depth: int = 0
    """The depth of the deepest leaf."""
    base_threshold: float | None = None
    """Computed once from the pairs of the first leaves; `None` before that."""
    diversions: int = 0
    """Number of times a full node passed an entry to a child below the threshold."""
    comparisons: int = 0
    speakers: tuple[Name, ...] = ()
    """Speakers, whose names are left out of embeddings."""


EMPTY: Final = TreeStats(session=0, leaves=0, nodes=0)
"""The statistics of a conversation without a tree."""


def index_entry(document: str) -> IndexEntry | None:
    """The expected index entry of a node's document, also of a newer version's; `None` for the root.

    What the index has is read alone. A new parent changes no point.
    """
    raw = orjson.loads(document)
    if raw.get("parent") is None:
        return None
    return IndexEntry(raw["node_id"], raw["text"], raw["created"], raw["changed"])


TABLES = StageTables(
    digested=(NODES, LEAVES, TERMS, STATS),
    left_out={
        VECTORS: "derived from the texts; floats may differ between engines in their last digits",
        SUMS: "derived from the vectors",
    },
    indexed=(Indexed(Collection.TREE, NODES, index_entry, frozenset({ROOT})),),
)
