"""Reads of the memory graph, for other stages too."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Scope
from eunoe.schemas.ports import StateStore
from eunoe.workers.link.graph import (
    COMPONENTS,
    EDGES,
    NAME,
    NEWER,
    PARENTS,
    STATS,
    VERTICES,
    Component,
    Edge,
    Edges,
    GraphStats,
    Page,
    Parent,
    Vertex,
    find,
    page_id,
)
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.link.timelines import Neighbourhood, Timeline, single_memory, untangle
from eunoe.workers.link.writes import StoredNeighbours

__all__ = [
    "Component",
    "Edge",
    "Timeline",
    "TimelineSettings",
    "all_edges",
    "linked_session",
    "read_children",
    "read_components",
    "read_edges",
    "read_link_stats",
    "read_neighbours",
    "read_stored_neighbours",
    "read_timelines",
]

ValueT = TypeVar("ValueT", bound=Value)

_TRIES = 5


async def read_link_stats(store: StateStore, key: str) -> GraphStats:
    """The statistics of a conversation's graph; empty if there is none."""
    return (await _read(store, key, STATS, GraphStats, [STATS])).get(STATS, GraphStats())


async def linked_session(store: StateStore, key: str) -> int:
    """The last session applied by `link`, with or without edges; 0 if none."""
    return await store.applied(Scope(NAME, key))


async def read_stored_neighbours(store: StateStore, key: str, ids: Sequence[str]) -> StoredNeighbours:
    """The stored documents needed to link to the memories ``ids``: a few for each."""
    vertices = await _read(store, key, VERTICES, Vertex, ids)
    parents = await _read_parents(store, key, sorted(vertices))
    roots = sorted({find(id_, parents) for id_ in vertices})
    last = {page_id(id_, vertex.further_pages[-1]): id_ for id_, vertex in vertices.items() if vertex.further_pages}
    pages = await _read(store, key, NEWER, Page, list(last))
    return StoredNeighbours(
        parents=parents,
        components=await _read(store, key, COMPONENTS, Component, roots),
        vertices=vertices,
        pages={last[place]: page for place, page in pages.items()},
    )


async def read_components(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, Component]:
    """Memory id → its component, for the memories in the graph."""
    parents = await _read_parents(store, key, ids)
    roots = {id_: find(id_, parents) for id_ in ids if id_ in parents}
    found = await _read(store, key, COMPONENTS, Component, sorted(set(roots.values())))
    return {id_: found[root] for id_, root in roots.items() if root in found}


async def read_edges(store: StateStore, key: str, newer_ids: Sequence[str]) -> list[Edge]:
    """The edges that end at these memories, with their explanations and provenance."""
    found = await _read(store, key, EDGES, Edges, newer_ids)
    return [edge for id_ in newer_ids if id_ in found for edge in found[id_].edges]


async def all_edges(store: StateStore, key: str) -> list[Edge]:
    """Every edge of a conversation, sorted by the newer memory's id: a full scan, for inspection."""
    rows = await store.scan(NAME, key, EDGES)
    return [edge for _, row in sorted(rows.items()) for edge in Edges.from_json(row).edges]


async def read_neighbours(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, list[str]]:
    """Memory id → sorted ids of the memories one edge away, for the memories in the graph."""
    vertices = await _read(store, key, VERTICES, Vertex, ids)
    children = await read_children(store, key, vertices)
    return {id_: sorted({*children[id_], *(older for older, _ in vertex.older)}) for id_, vertex in vertices.items()}


async def read_timelines(
    store: StateStore, key: str, retrieved: Sequence[str], settings: TimelineSettings
) -> list[Timeline]:
    """The raw timelines of the retrieved memories, in their order and without duplicates.

    A retrieved memory that is not in the graph yet is a timeline by itself. Reads the ancestors and descendants of the
    retrieved memories, never the whole component.
    """
    found: dict[tuple[str, ...], Timeline] = {}
    reader = _GraphReader(store, key)
    wanted = list(dict.fromkeys(retrieved))
    around = await asyncio.gather(*(reader.neighbourhood(id_, settings) for id_ in wanted))
    for id_, neighbourhood in zip(wanted, around, strict=True):
        for timeline in [single_memory(id_)] if neighbourhood is None else untangle(id_, neighbourhood, settings):
            found.setdefault(timeline.memories, timeline)
    return list(found.values())


async def read_children(store: StateStore, key: str, vertices: Mapping[str, Vertex]) -> dict[str, tuple[str, ...]]:
    """Memory id → ids that all its outgoing edges lead to."""
    places = [page_id(id_, number) for id_, vertex in vertices.items() for number in vertex.further_pages]
    pages = await _read(store, key, NEWER, Page, places)
    return {
        id_: vertex.newer + tuple(newer for number in vertex.further_pages for newer in _page(pages, id_, number))
        for id_, vertex in vertices.items()
    }


def _page(pages: Mapping[str, Page], id_: str, number: int) -> tuple[str, ...]:
    return pages.get(page_id(id_, number), Page()).newer


Step = Callable[[Mapping[str, Vertex]], Awaitable[Mapping[str, Iterable[str]]]]
"""Maps memories to the ids one step away, in one direction."""


class _GraphReader:
    """Reads the graph level by level and caches vertices for all retrieved memories of a query."""

    def __init__(self, store: StateStore, key: str) -> None:
        self._store = store
        self._key = key
        self._vertices: dict[str, Vertex] = {}
        self._children: dict[str, tuple[str, ...]] = {}

    async def neighbourhood(self, id_: str, settings: TimelineSettings) -> Neighbourhood | None:
        """The neighbourhood that timelines through a memory need; `None` if it is not in the graph."""
        if not await self._read([id_]):
            return None
        past, future, oldest = await asyncio.gather(
            self._around(id_, self._olders, settings), self._around(id_, self._newers, settings), self._oldest(id_)
        )
        return Neighbourhood(past, future, {each: self._children[each] for each in future}, oldest)

    async def _oldest(self, id_: str) -> str | None:
        """The oldest memory of the component; read again if the component was just merged into another."""
        for _ in range(_TRIES):
            parents = await _read_parents(self._store, self._key, [id_])
            if id_ not in parents:  # a state store that went back between two reads shows the vertex no more
                return None
            root = find(id_, parents)
            found = await _read(self._store, self._key, COMPONENTS, Component, [root])
            if root in found:
                return found[root].oldest.memory_id
        return None

    async def _around(self, start: str, next_: Step, settings: TimelineSettings) -> dict[str, Vertex]:
        """The vertices within ``max_length`` steps, the nearest first, at most ``max_read``."""
        found: dict[str, Vertex] = {}
        level: list[str] = [start]
        for _ in range(settings.max_length):
            vertices = await self._read(level[: settings.max_read - len(found)])
            found |= vertices
            steps = await next_(vertices)
            level = list(dict.fromkeys(id_ for ids in steps.values() for id_ in ids if id_ not in found))
            if not level or len(found) >= settings.max_read:
                break
        return found

    async def _read(self, ids: Iterable[str]) -> dict[str, Vertex]:
        wanted = list(ids)
        missing = [id_ for id_ in wanted if id_ not in self._vertices]
        self._vertices |= await _read(self._store, self._key, VERTICES, Vertex, missing)
        return {id_: self._vertices[id_] for id_ in wanted if id_ in self._vertices}

    async def _olders(self, vertices: Mapping[str, Vertex]) -> dict[str, list[str]]:
        return {id_: [older for older, _ in vertex.older] for id_, vertex in vertices.items()}

    async def _newers(self, vertices: Mapping[str, Vertex]) -> dict[str, tuple[str, ...]]:
        missing = {id_: vertex for id_, vertex in vertices.items() if id_ not in self._children}
        self._children |= await read_children(self._store, self._key, missing)
        return {id_: self._children[id_] for id_ in vertices}


async def _read_parents(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, str]:
    """Memory id → parent for every step from ``ids`` to their roots, in at most log2(members) rounds."""
    parents: dict[str, str] = {}
    level: Sequence[str] = ids
    while level:
        found = await _read(store, key, PARENTS, Parent, level)
        parents |= {id_: parent.id for id_, parent in found.items()}
        level = sorted(set(parents.values()) - set(parents))
    return parents


async def _read(store: StateStore, key: str, table: str, form: type[ValueT], ids: Sequence[str]) -> dict[str, ValueT]:
    """The stored documents by id; missing ones are left out."""
    if not ids:
        return {}
    rows = await store.fetch(NAME, key, table, ids)
    return {id_: form.from_json(row) for id_, row in zip(ids, rows, strict=True) if row is not None}
