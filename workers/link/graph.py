"""The memory graph (THEANINE, section 2.1, Algorithm 1). Pure.

Vertices are memories; edges run from an older memory to one of a later session. Connected components are kept
as a union-find forest whose nodes are documents: each memory names a memory nearer to the root of its component,
the root's document tells of the component. The smaller component joins the larger one, so that a root is at most
log2(members) steps away and a session touches only what it links.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from eunoe.schemas.base import Identifier, Value
from eunoe.schemas.events import Provenance
from eunoe.schemas.relations import Relation
from eunoe.workers.stage import StageTables

NAME = "link"
VERTICES, NEWER, EDGES, PARENTS, COMPONENTS, STATS = "vertices", "newer", "edges", "parents", "components", "stats"
"""The tables: see `Vertex`, `Page`, `Edges`, `Parent`, `Component` and `GraphStats`."""
TABLES = StageTables(digested=(VERTICES, NEWER, EDGES, PARENTS, COMPONENTS, STATS))

MAX_EXPLANATION_CHARS = 300
MAX_SPEAKERS = 64
PAGE = 64
"""Outgoing edges in one document."""


class AgeKey(NamedTuple):
    """Sorts memories by age in log order; ties by id."""

    session: int
    place: int
    """Its index in its session."""
    memory_id: str


class Edge(Value):
    """``older`` leads to ``newer`` as ``relation`` says (equation 4)."""

    older: Identifier
    relation: Relation
    newer: Identifier
    explanation: str = Field(default="", max_length=MAX_EXPLANATION_CHARS)
    suspicion: bool = False
    """True: nobody judged the two; `update` suspects that the newer one contradicts the older one."""
    made_by: Provenance


class Edges(Value):
    """The edges that end at one memory, as people and audits see them; at most one per earlier component."""

    edges: tuple[Edge, ...]


class Vertex(Value):
    """A memory's place in the graph: all that walking needs."""

    session: int
    index: int
    older: tuple[tuple[str, Relation], ...] = ()
    """Where its incoming edges come from."""
    newer: tuple[str, ...] = ()
    """Where its first `PAGE` outgoing edges go; further ones stand in pages."""
    degree: int = 0
    """How many edges go out."""

    @property
    def further_pages(self) -> range:
        """The numbers of the pages beside this document."""
        return range(1, -(-self.degree // PAGE))


class Page(Value):
    """More outgoing edges of a memory, under ``<memory id>/<page>``."""

    newer: tuple[str, ...] = ()


class Parent(Value):
    """The next memory on the way to the root of the component; the root names itself."""

    id: str


class Component(Value):
    """A connected component, kept under the id of its root."""

    root: str
    size: int
    oldest: AgeKey
    """Θ of equation 9."""


class GraphStats(Value):
    """What link knows of a whole conversation."""

    session: int = 0
    """The last session that it applied."""
    memories: int = 0
    speakers: tuple[str, ...] = ()
    """Whose names tell no topic; bounded."""
    edges: dict[Relation, int] = Field(default_factory=dict)
    fallbacks: int = 0
    """Sessions whose relations the offline twin decided because the model's answers failed."""


class Related(NamedTuple):
    """A pair with a relation: a member of M*_a (equation 6) and the new memory."""

    older: AgeKey
    newer: AgeKey
    relation: Relation
    explanation: str = ""
    suspected: bool = False
    """True: `update` suspects that the two contradict each other."""
    judged: bool = True
    """False: nobody judged the pair, its relation is that suspicion."""


def page_id(memory_id: str, page: int) -> str:
    """The id of a page of outgoing edges."""
    return f"{memory_id}/{page}"


def choose_links(related: Iterable[Related], roots: Mapping[str, str]) -> tuple[Related, ...]:
    """The pairs that become edges: for each new memory the most recent related one of each component.

    Suspected pairs go before others of a component: a contradiction is not hidden behind something more recent.
    ``roots`` tells the component of each older memory as it was before the session (equations 7 and 8); one that it
    does not know is a component by itself. Edges come sorted by the new memory, then the older one. Raises
    ``ValueError`` for a pair whose older memory is not of an earlier session.
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
    """Which component each of ``components`` (by root) belongs to after ``unions`` (pairs of roots).

    The larger one gives the root; of equal ones the one with the older oldest memory.
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
    """The root that ``parents`` lead to from ``node``."""
    while parents[node] != node:
        node = parents[node]
    return node


def append_newer(vertex: Vertex, last: Page, added: Sequence[str]) -> tuple[Vertex, dict[int, Page]]:
    """A vertex with outgoing edges added, and the further pages that change.

    ``last`` is its last further page as it is (ignored where it has none).
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
