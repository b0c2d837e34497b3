"""What the tree is kept as: documents of the stage's own tables."""

from pydantic import Field

from eunoe.schemas.base import Identifier, Name, Time, Value
from eunoe.schemas.decisions import Collection
from eunoe.schemas.events import Provenance
from eunoe.workers.stage import Indexed, IndexEntry, StageTables

NAME = "tree"
CODE = "tree/1"
"""The version of this room's algorithms, as provenance tells it."""

NODES, VECTORS, SUMS, LEAVES, TERMS, STATS = "nodes", "vectors", "sums", "leaves", "terms", "stats"
ROOT = "root"
MAX_SPEAKERS = 64


class TreeNode(Value):
    """A node: a leaf holds one entry (a memory or a segment), any other the aggregate of what is below it.

    The root is structural: it has children, and neither text nor vector (MemTree, section 3).
    """

    node_id: Identifier
    parent: Identifier | None = None
    """None: the root."""
    children: tuple[Identifier, ...] = ()
    depth: int = Field(default=0, ge=0)
    """The root's is 0."""
    descendants: int = Field(default=0, ge=0)
    """Leaves below it; 0 for a leaf."""
    text: str = ""
    entry: Identifier | None = None
    """The id of the memory (or segment) that a leaf holds."""
    ended: bool = False
    """True: the leaf's memory no longer holds."""
    speakers: tuple[Name, ...] = ()
    """All whom it is about, in order of appearance."""
    first_at: Time | None = None
    """The earliest event time below it."""
    last_at: Time | None = None
    """The latest event time below it."""
    created: int = Field(default=0, ge=0)
    """The session that created it; 0: the root."""
    changed: int = Field(default=0, ge=0)
    """The session that changed it last."""
    made_by: Provenance | None = None
    """What wrote its text; None for the root and for leaves, whose entries tell."""

    @property
    def is_leaf(self) -> bool:
        """True: it holds an entry."""
        return self.entry is not None


class Dense(Value):
    """A vector as it is kept; `VECTORS` holds unit vectors, `SUMS` the sum over the leaves below that hold."""

    dense: bytes
    """Little-endian float32."""


class LeafRef(Value):
    """Which node holds an entry."""

    node_id: Identifier


class LeafFrequency(Value):
    """In how many leaves a term stands."""

    leaves: int


class TreeStats(Value):
    """What is known of a whole tree."""

    session: int = 0
    """The last session that was applied."""
    leaves: int = 0
    nodes: int = 0
    """All nodes but the root."""
    depth: int = 0
    """The depth of the deepest leaf."""
    base_threshold: float | None = None
    """Taken once from the pairs of the first leaves; None: not yet."""
    diversions: int = 0
    """How often a full node sent an entry to a child below the threshold."""
    comparisons: int = 0
    speakers: tuple[Name, ...] = ()
    """Whose names are left out before embedding."""


def index_entry(document: str) -> IndexEntry | None:
    """What the index must say of a node's document; None for the root. A new parent changes no point of a node."""
    node = TreeNode.from_json(document)
    if node.parent is None:
        return None
    return IndexEntry(node.node_id, node.text, node.created, node.changed)


TABLES = StageTables(
    digested=(NODES, LEAVES, TERMS, STATS),
    left_out={
        VECTORS: "follow from the texts; an engine's floats may differ in their last digits",
        SUMS: "follow from the vectors",
    },
    indexed=(Indexed(Collection.TREE, NODES, index_entry),),
)
