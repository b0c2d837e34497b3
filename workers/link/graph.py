"""The memory graph (THEANINE, section 2.1, Algorithm 1).

Vertices are memories; edges run from an older memory to one of a later session. Connected components are kept as a
union-find forest whose nodes are documents: each memory names a parent nearer to the root of its component, and the
root has the document of the component. The smaller component joins the larger one, so a root is at most log2(members)
steps away and a session changes only what it links.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from eunoe.schemas.base import Identifier, Value
from eunoe.schemas.events import Provenance
from eunoe.schemas.relations import Relation
from eunoe.workers.tables import StageTables

NAME = "link"
VERTICES, NEWER, EDGES, PARENTS, COMPONENTS, STATS = "vertices", "newer", "edges", "parents", "components", "stats"
"""The tables; see `Vertex`, `Page`, `Edges`, `Parent`, `Component` and `GraphStats`."""
TABLES = StageTables(digested=(VERTICES, NEWER, EDGES, PARENTS, COMPONENTS, STATS))

MAX_EXPLANATION_CHARS = 300
PAGE = 64
"""Maximum of outgoing edges in one document."""


class AgeKey(NamedTuple):
    """Sorts memories by age in log order, then by id."""

    session: int
    place: int
    """Index in the session."""
    memory_id: str


class Edge(Value):
    """An edge from ``older`` to ``newer`` (equation 4)."""

    older: Identifier
    relation: Relation
    newer: Identifier
    explanation: str = Field(default="", max_length=MAX_EXPLANATION_CHARS)
    suspicion: bool = False
    """Whether no judge assigned it: `update` suspects that the newer memory contradicts the older one."""
    made_by: Provenance


class Edges(Value):
    """The edges that end at one memory, for inspection and audits; at most one per earlier component."""

    edges: tuple[Edge, ...]


class Vertex(Value):
    """A memory's place in the graph, with all that traversal needs."""

    session: int
    index: int
    older: tuple[tuple[str, Relation], ...] = ()
    """(older memory id, relation) of each incoming edge."""
    newer: tuple[str, ...] = ()
    """Ids that the first `PAGE` outgoing edges lead to; further ones are in pages."""
    degree: int = 0
    """Number of outgoing edges."""

    @property
    def further_pages(self) -> range:
        """The numbers of this memory's pages."""
        return range(1, -(-self.degree // PAGE))


class Page(Value):
    """Further outgoing edges of a memory, with id ``<memory id>/<page>``."""

    newer: tuple[str, ...] = ()


class Parent(Value):
    """A memory's parent on the way to the root of its component; the root is its own parent."""

    id: str


class Component(Value):
    """A connected component, stored under the id of its root."""

    root: str
    size: int
    oldest: AgeKey
    """Θ of equation 9."""


class GraphStats(Value):
    """Statistics of a conversation's graph."""

    session: int = 0
    """The last applied session."""
    memories: int = 0
    speakers: tuple[str, ...] = ()
    """Speakers, whose names are left out of embeddings."""
    edges: dict[Relation, int] = Field(default_factory=dict)
    fallbacks: int = 0
    """Sessions decided by the offline judge because the model's answers were invalid."""


class Related(NamedTuple):
    """A related pair: a member of M*_a (equation 6) and the new memory."""

    older: AgeKey
    newer: AgeKey
    relation: Relation
    explanation: str = ""
    suspected: bool = False
    """Whether `update` suspects a contradiction."""
    judged: bool = True
    """Whether a judge assigned the relation; if not, it is the suspicion."""


def page_id(memory_id: str, page: int) -> str:
    """The id of a page of outgoing edges."""
    return f"{memory_id}/{page}"


def choose_links(related: Iterable[Related], roots: Mapping[str, str]) -> tuple[Related, ...]:
    """The pairs that become edges: for each new memory the most recent related one of each component.

    Suspected pairs take precedence, so that a recent memory does not hide a contradiction. ``roots`` maps each older
    memory to its component before the session (equations 7 and 8); a memory without an entry is its own component. The
    result is sorted by the new memory, then the older one. Raises ``ValueError`` for a pair whose older memory is not
    of an earlier session.
    """
    best: dict[tuple[AgeKey, str], Related] = {}
    for pair in related:
        if pair.older.session >= pair.newer.session:
            raise ValueError(f"{pair.older} is not of an earlier session than {pair.newer}")
        older_id = pair.older.memory_id
        place = pair.newer, roots.get(older_id, older_id)
        there = best.get(place)
        if there is None or (there.suspected, there.older) < (pair.suspected, pair.older):
            best[place] = pair
    return tuple(sorted(best.values(), key=lambda pair: (pair.newer, pair.older)))


def unite(components: Iterable[Component], unions: Iterable[tuple[str, str]]) -> dict[str, Component]:
    """Root → its component after the ``unions`` (pairs of roots), for all ``components``.

    The larger component gives the root; of equal ones the one with the older oldest memory.
    """
    forest = {component.root: component for component in components}
    parents = {root: root for root in forest}
    for one, other in unions:
        first, second = find(one, parents), find(other, parents)
        if first == second:
            continue
        large, small = sorted((forest[first], forest[second]), key=lambda c: (-c.size, c.oldest))
        parents[small.root] = large.root
        forest[large.root] = Component(
            root=large.root, size=large.size + small.size, oldest=min(large.oldest, small.oldest)
        )
    return {root: forest[find(root, parents)] for root in parents}


def find(node: str, parents: Mapping[str, str]) -> str:
    """Follow ``parents`` from ``node`` to the root."""
    while parents[node] != node:
        node = parents[node]
    return node


def append_newer(vertex: Vertex, last: Page, added: Sequence[str]) -> tuple[Vertex, dict[int, Page]]:
    """The vertex with outgoing edges added, and the changed pages by number.

    ``last`` is its last page before; ignored if it has none.
    """
    number = vertex.further_pages[-1] if vertex.further_pages else 0
    pages = {number: list(last.newer if number else vertex.newer)}
    for id_ in added:
        if len(pages[number]) == PAGE:
            number += 1
            pages[number] = []
        pages[number].append(id_)
    first = tuple(pages.pop(0)) if 0 in pages else vertex.newer
    grown = vertex.model_copy(update={"newer": first, "degree": vertex.degree + len(added)})
    return grown, {page: Page(newer=tuple(ids)) for page, ids in pages.items()}
