"""Reads of the memory graph, for other stages too."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Scope
from eunoe.schemas.documents import read_document
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
from eunoe.workers.link.vertex_cache import ReadVertices, VertexCache
from eunoe.workers.link.walks import Walk
from eunoe.workers.link.writes import StoredNeighbours

__all__ = [
    "Component",
    "Edge",
    "Timeline",
    "TimelineSettings",
    "VertexCache",
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
    return [edge for _, row in sorted(rows.items()) for edge in read_document(Edges, row, key).edges]


async def read_neighbours(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, list[str]]:
    """Memory id → sorted ids of the memories one edge away, for the memories in the graph."""
    vertices = await _read(store, key, VERTICES, Vertex, ids)
    children = await read_children(store, key, vertices)
    return {id_: sorted({*children[id_], *(older for older, _ in vertex.older)}) for id_, vertex in vertices.items()}


async def read_timelines(
    store: StateStore,
    key: str,
    retrieved: Sequence[str],
    settings: TimelineSettings,
    cache: VertexCache | None = None,
) -> list[Timeline]:
    """The raw timelines of the retrieved memories, in their order and without duplicates.

    A retrieved memory that is not in the graph yet is a timeline by itself. Reads the ancestors and descendants of the
    retrieved memories, never the whole component. ``cache``: keeps what was read for the next time.
    """
    found: dict[tuple[str, ...], Timeline] = {}
    wanted = list(dict.fromkeys(retrieved))
    read = await (cache or VertexCache()).reader(store, key)
    around = await _read_neighbourhoods(store, key, wanted, settings, read)
    for id_ in wanted:
        for timeline in untangle(id_, around[id_], settings) if id_ in around else [single_memory(id_)]:
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


async def _read_neighbourhoods(
    store: StateStore, key: str, ids: Sequence[str], settings: TimelineSettings, read: ReadVertices
) -> dict[str, Neighbourhood]:
    """Memory id → what timelines through it need, for the memories in the graph."""
    vertices = await read(ids)
    walks = {
        id_: tuple(Walk.of(id_, settings.max_read, is_forward=forward) for forward in (False, True)) for id_ in vertices
    }
    every = [walk for both in walks.values() for walk in both]
    children, oldest = await asyncio.gather(
        _walk(partial(read_children, store, key), read, every, vertices, settings.max_length),
        _read_oldest(store, key, list(vertices)),
    )
    return {
        id_: Neighbourhood(past.found, future.found, {each: children[each] for each in future.found}, oldest.get(id_))
        for id_, (past, future) in walks.items()
    }


async def _walk(
    find_children: Callable[[Mapping[str, Vertex]], Awaitable[dict[str, tuple[str, ...]]]],
    read: ReadVertices,
    walks: Sequence[Walk],
    vertices: dict[str, Vertex],
    max_steps: int,
) -> dict[str, tuple[str, ...]]:
    """Go ``max_steps`` levels with all walks at once; returns the children of what was found on walks forward.

    ``vertices``: those that are known, to which the others are added.
    """
    children: dict[str, tuple[str, ...]] = {}
    for _ in range(max_steps):
        level = dict.fromkeys(id_ for walk in walks for id_ in walk.level)
        if not level:
            break
        vertices |= await read([id_ for id_ in level if id_ not in vertices])
        forward = dict.fromkeys(id_ for walk in walks if walk.is_forward for id_ in walk.level)
        parents = {id_: vertices[id_] for id_ in forward if id_ in vertices and id_ not in children}
        children |= await find_children(parents)
        for walk in walks:
            walk.step(vertices, children)
    return children


async def _read_oldest(store: StateStore, key: str, ids: Sequence[str]) -> dict[str, str]:
    """Memory id → the oldest memory of its component; read again where that was just merged into another."""
    found: dict[str, str] = {}
    for _ in range(_TRIES):
        left = [id_ for id_ in ids if id_ not in found]
        if not left:
            break
        components = await read_components(store, key, left)
        found |= {id_: component.oldest.memory_id for id_, component in components.items()}
    return found


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
    return {id_: read_document(form, row, key) for id_, row in zip(ids, rows, strict=True) if row is not None}
