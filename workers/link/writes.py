"""Builds the graph documents that a session changes (THEANINE, Algorithm 1, lines 8 to 13)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Drop, Put, Write
from eunoe.schemas.events import Provenance
from eunoe.schemas.memory import Memory
from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import (
    COMPONENTS,
    EDGES,
    MAX_EXPLANATION_CHARS,
    NEWER,
    PARENTS,
    VERTICES,
    AgeKey,
    Component,
    Edge,
    Edges,
    GraphStats,
    Page,
    Parent,
    Related,
    Vertex,
    append_newer,
    find,
    page_id,
    unite,
)
from eunoe.workers.link.judge import CODE, RelationJudgement, RelationPair
from eunoe.workers.text.names import first_speakers

SUSPICION = Provenance(code=CODE, model="suspicion")
"""Provenance of an edge that represents a suspicion of `update`."""


@dataclass(frozen=True, slots=True)
class StoredNeighbours:
    """Stored documents around the older memories of a session's pairs, before the session."""

    parents: Mapping[str, str] = field(default_factory=dict)
    """Memory id → parent, for every step up to the roots."""
    components: Mapping[str, Component] = field(default_factory=dict)
    """By root id."""
    vertices: Mapping[str, Vertex] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    """The last page of each memory that has pages, by memory id."""

    @property
    def roots(self) -> dict[str, str]:
        """Memory id → root id of its component."""
        return {id_: find(id_, self.parents) for id_ in self.parents}


def age_key(memory: Memory) -> AgeKey:
    """The age key of a memory."""
    return AgeKey(*memory.order)


def related_pairs(pairs: Sequence[RelationPair], judgement: RelationJudgement) -> Iterator[Related]:
    """The pairs that have a relation (equation 6)."""
    for pair, verdict in zip(pairs, judgement.verdicts, strict=True):
        if verdict.relation is not None:
            yield Related(age_key(pair.older), age_key(pair.newer), verdict.relation, verdict.explanation)


def graph_writes(
    new: Sequence[AgeKey], links: Sequence[Related], known: StoredNeighbours, made_by: Provenance
) -> list[Write]:
    """The writes that add the memories ``new`` and their ``links`` to the graph.

    An older memory that is not in the graph (its session was skipped here) is added with its first edge; if its session
    is applied late, it is there already.
    """
    met = {*new, *(link.older for link in links)}
    entering = sorted(order for order in met if order.memory_id not in known.vertices)
    vertices = {order.memory_id: Vertex(session=order.session, index=order.place) for order in entering}
    return [
        *_edge_writes(links, made_by),
        *_vertex_writes(links, {**known.vertices, **vertices}, set(vertices), known.pages),
        *_component_writes(entering, links, known),
    ]


def _edge_writes(links: Iterable[Related], made_by: Provenance) -> Iterator[Write]:
    by_newer: defaultdict[str, list[Edge]] = defaultdict(list)
    for link in links:
        by_newer[link.newer.memory_id].append(
            Edge(
                older=link.older.memory_id,
                relation=link.relation,
                newer=link.newer.memory_id,
                explanation=" ".join(link.explanation.split())[:MAX_EXPLANATION_CHARS],
                suspicion=not link.judged,
                made_by=made_by if link.judged else SUSPICION,
            )
        )
    for id_, edges in by_newer.items():
        yield Put.of(EDGES, id_, Edges(edges=tuple(edges)))


def _vertex_writes(
    links: Sequence[Related], vertices: dict[str, Vertex], entering: set[str], pages: Mapping[str, Page]
) -> Iterator[Write]:
    incoming: defaultdict[str, list[tuple[str, Relation]]] = defaultdict(list)
    outgoing: defaultdict[str, list[str]] = defaultdict(list)
    for link in links:
        incoming[link.newer.memory_id].append((link.older.memory_id, link.relation))
        outgoing[link.older.memory_id].append(link.newer.memory_id)
    for id_, edges in incoming.items():
        vertices[id_] = vertices[id_].model_copy(update={"older": (*vertices[id_].older, *edges)})
    for id_, newer in outgoing.items():
        vertices[id_], further = append_newer(vertices[id_], pages.get(id_, Page()), newer)
        for number, page in further.items():
            yield Put.of(NEWER, page_id(id_, number), page)
    for id_ in sorted({*entering, *incoming, *outgoing}):
        yield Put.of(VERTICES, id_, vertices[id_])


def _component_writes(entering: Sequence[AgeKey], links: Sequence[Related], known: StoredNeighbours) -> Iterator[Write]:
    """The components after the session; each memory read on the way to a root now has that root as parent."""
    fresh = {order.memory_id: Component(root=order.memory_id, size=1, oldest=order) for order in entering}
    roots = {**known.roots, **{id_: id_ for id_ in fresh}}
    before = {**known.components, **fresh}
    after = unite(before.values(), [(roots[a.older.memory_id], roots[a.newer.memory_id]) for a in links])
    for id_, root in sorted(roots.items()):
        if known.parents.get(id_) != after[root].root:
            yield Put.of(PARENTS, id_, Parent(id=after[root].root))
    for root in sorted(before):
        if after[root].root != root:
            if root in known.components:
                yield Drop(table=COMPONENTS, id=root)
        elif known.components.get(root) != after[root]:
            yield Put.of(COMPONENTS, root, after[root])


def stats_after(
    stats: GraphStats, session: int, new: Sequence[Memory], links: Iterable[Related], made_by: Provenance | None
) -> GraphStats:
    """The statistics after a session."""
    counted = Counter(stats.edges) + Counter(link.relation for link in links)
    return GraphStats(
        session=session,
        memories=stats.memories + len(new),
        speakers=add_speakers(stats.speakers, new),
        edges={relation: counted[relation] for relation in Relation if counted[relation]},
        fallbacks=stats.fallbacks + (made_by is not None and made_by.fallback),
    )


def add_speakers(speakers: Sequence[str], memories: Iterable[Memory]) -> tuple[str, ...]:
    """The first of ``speakers`` and those of the memories and their evidence."""
    return first_speakers(speakers, *(memory.speakers for memory in memories))
