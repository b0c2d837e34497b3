"""Vertices that are kept give the timelines that the store would give, also while the graph grows."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.link.reads import read_timelines
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.link.vertex_cache import VertexCache
from eunoe.workers.stores.state.memory_store import MemoryStore
from eunoe.workers.text.caches import cache_sizes
from tests.support.graphs import KEY, DrawnGraph

ALL = TimelineSettings(timelines=1000, max_paths=1000)
ROOM = 1_000_000


class CountingStore(MemoryStore):
    """Counts reads of vertices."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def fetch(self, stage: str, key: str, table: str, ids: Sequence[str]) -> list[str | None]:
        self.reads += table == "vertices"
        return await super().fetch(stage, key, table, ids)


async def chain(length: int) -> DrawnGraph:
    graph = DrawnGraph()
    graph.store = CountingStore()
    await graph.session("1a")
    for session in range(2, length + 1):
        await graph.session(f"{session}a", related=[(f"{session - 1}a", f"{session}a")])
    return graph


async def counted(graph: DrawnGraph, cache: VertexCache, *retrieved: str) -> tuple[int, set[tuple[str, ...]]]:
    """The reads of vertices, and the memories of the timelines."""
    store = graph.store
    assert isinstance(store, CountingStore)
    before = store.reads
    found = await read_timelines(store, KEY, retrieved, ALL, cache)
    return store.reads - before, {timeline.memories for timeline in found}


async def test_a_chain_is_read_once():
    graph, cache = await chain(12), VertexCache(ROOM)
    whole = tuple(f"{session}a" for session in range(1, 13))
    first, found = await counted(graph, cache, "6a")
    assert (first >= 6, found) == (True, {whole})
    assert await counted(graph, cache, "6a") == (0, {whole})
    assert await counted(graph, cache, "11a", "2a") == (0, {whole}), "other memories of the same chain"


async def test_a_session_that_is_linked_is_seen_at_once():
    graph, cache = await chain(4), VertexCache(ROOM)
    await counted(graph, cache, "2a")
    await graph.session("5a", related=[("4a", "5a")])
    reads, found = await counted(graph, cache, "2a")
    assert reads > 0
    assert found == {("1a", "2a", "3a", "4a", "5a")}


async def test_a_memory_that_is_not_in_the_graph_is_looked_for_again():
    graph, cache = await chain(2), VertexCache(ROOM)
    assert await counted(graph, cache, "9q") == (1, {("9q",)})
    assert await counted(graph, cache, "9q") == (1, {("9q",)})


async def test_a_cache_without_room_keeps_nothing():
    graph, cache = await chain(4), VertexCache()
    first, _ = await counted(graph, cache, "2a")
    assert (await counted(graph, cache, "2a"))[0] == first > 0


async def test_what_is_kept_is_bounded_and_counted():
    graph, cache = await chain(12), VertexCache(2_000)
    await counted(graph, cache, "6a")
    held, most = cache_sizes()["vertices"]
    assert 0 < held <= most
    assert most >= 2_000
    assert (await counted(graph, cache, "6a"))[0] > 0


sessions = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=4), min_size=1, max_size=7)


@given(sessions, st.lists(st.integers(0, 20), min_size=1, max_size=3))
def test_timelines_are_those_without_a_cache(drawn, asked):
    async def run() -> None:
        graph, cache = DrawnGraph(), VertexCache(ROOM)
        names: list[str] = []
        for number, pairs in enumerate(drawn, 1):
            new = [f"{number}{letter}" for letter in "abc"]
            related = {(names[older % len(names)], new[newer]) for older, newer in pairs if names}
            await graph.session(*new, related=sorted(related))
            names += new
            wanted = [names[place % len(names)] for place in asked]
            expected = await read_timelines(graph.store, KEY, wanted, ALL)
            assert await read_timelines(graph.store, KEY, wanted, ALL, cache) == expected

    asyncio.run(run())
