"""Timelines: whole paths through a retrieved memory, bounded, the same for the same graph."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import PAGE
from eunoe.workers.link.reads import all_edges, read_timelines
from eunoe.workers.link.settings import TimelineSettings
from eunoe.workers.link.timelines import Timeline
from tests.support.graphs import KEY, DrawnGraph, order

ALL = TimelineSettings(timelines=1000, max_paths=1000)


async def ask(graph: DrawnGraph, *retrieved: str, settings: TimelineSettings = ALL) -> list[Timeline]:
    return await read_timelines(graph.store, KEY, retrieved, settings)


def drawn(timelines: list[Timeline]) -> set[str]:
    return {" ".join(timeline.memories) for timeline in timelines}


async def two_through_one() -> DrawnGraph:
    """1a leads to 2a, which leads to 3a and to 3b."""
    graph = DrawnGraph()
    await graph.session("1a")
    await graph.session("2a", related=[("1a", "2a")], relation=Relation.CHANGED)
    await graph.session("3a", "3b", related=[("2a", "3a"), ("2a", "3b")], relation=Relation.WANT)
    return graph


async def test_two_timelines_run_through_one_retrieved_memory():
    found = await ask(await two_through_one(), "2a")
    assert drawn(found) == {"1a 2a 3a", "1a 2a 3b"}
    assert all(timeline.relations == (Relation.CHANGED, Relation.WANT) for timeline in found)
    assert all(not timeline.truncated and timeline.retrieved == "2a" for timeline in found)


async def test_one_is_chosen_always_the_same():
    graph, settings = await two_through_one(), TimelineSettings()
    once = await ask(graph, "2a", settings=settings)
    assert len(once) == 1
    assert once == await ask(await two_through_one(), "2a", settings=settings)


async def test_a_branch_that_the_retrieved_memory_is_not_on_is_left_out():
    assert drawn(await ask(await two_through_one(), "3b")) == {"1a 2a 3b"}


async def test_a_timeline_that_two_retrieved_memories_share_stands_once():
    assert drawn(await ask(await two_through_one(), "3a", "3a", "2a")) == {"1a 2a 3a", "1a 2a 3b"}
    assert len(await ask(await two_through_one(), "3a", "3a", "2a")) == 2


async def test_a_memory_without_edges_and_one_unknown_are_timelines_by_themselves():
    graph = DrawnGraph()
    await graph.session("1a")
    assert await ask(graph, "1a", "7q") == [
        Timeline(memories=("1a",), relations=(), retrieved="1a"),
        Timeline(memories=("7q",), relations=(), retrieved="7q"),
    ]


async def test_where_the_oldest_has_no_path_the_oldest_ancestor_that_has_is_the_start():
    graph = DrawnGraph()
    await graph.session("1a", "1b")
    await graph.session("2a", "2b", related=[("1a", "2a"), ("1b", "2b")])
    await graph.session("3a", related=[("2a", "3a"), ("2b", "3a")])
    assert drawn(await ask(graph, "2b")) == {"1b 2b 3a"}
    assert drawn(await ask(graph, "2a")) == {"1a 2a 3a"}
    # the oldest of the whole component reaches the memory in which both meet, so only its path counts
    assert drawn(await ask(graph, "3a")) == {"1a 2a 3a"}


async def chain(length: int) -> DrawnGraph:
    graph = DrawnGraph()
    await graph.session("1a")
    for number in range(2, length + 1):
        await graph.session(f"{number}a", related=[(f"{number - 1}a", f"{number}a")])
    return graph


@pytest.mark.parametrize(
    ("retrieved", "memories"),
    [("10a", range(8, 13)), ("2a", range(1, 6)), ("19a", range(16, 21)), ("1a", range(1, 6)), ("20a", range(16, 21))],
)
async def test_a_timeline_that_is_too_long_is_cut_around_the_retrieved_memory_and_says_so(retrieved, memories):
    found = await ask(await chain(20), retrieved, settings=TimelineSettings(max_length=5))
    assert [timeline.memories for timeline in found] == [tuple(f"{number}a" for number in memories)]
    assert found[0].truncated


async def test_a_timeline_of_just_the_bound_is_whole():
    (found,) = await ask(await chain(5), "3a", settings=TimelineSettings(max_length=5))
    assert (len(found.memories), found.truncated) == (5, False)


async def test_a_longer_way_gives_way_to_one_that_fits():
    graph = DrawnGraph()
    await graph.session("1a")
    await graph.session("2a", related=[("1a", "2a")])
    await graph.session("3a", related=[("2a", "3a")])
    await graph.lay("4a", edges=[("1a", "4a"), ("3a", "4a")])
    assert drawn(await ask(graph, "4a")) == {"1a 4a", "1a 2a 3a 4a"}
    for max_length, expected in ((4, 2), (3, 1), (2, 1)):
        found = await ask(graph, "4a", settings=TimelineSettings(timelines=9, max_length=max_length))
        assert len(found) == expected
        assert not any(timeline.truncated for timeline in found)


async def ladder(rungs: int) -> DrawnGraph:
    """Two new memories each session, each after both of the session before: 2 ** rungs paths."""
    graph = DrawnGraph()
    await graph.session("1a", "1b")
    for n in range(2, rungs + 2):
        await graph.lay(f"{n}a", f"{n}b", edges=[(f"{n - 1}{a}", f"{n}{b}") for a in "ab" for b in "ab"])
    return graph


async def test_paths_beyond_number_are_drawn_not_laid_out():
    graph = await ladder(30)
    found = await ask(graph, "15a", settings=TimelineSettings(timelines=5, max_paths=8, max_length=64))
    assert len(drawn(found)) == 5
    assert all(not timeline.truncated for timeline in found)
    assert all(len(timeline.memories) == 31 and timeline.memories[14] == "15a" for timeline in found)


async def test_a_hub_is_walked_through_all_its_pages():
    graph = DrawnGraph()
    await graph.session("1a")
    for number in range(2, 2 * PAGE + 10):
        await graph.session(f"{number}a", related=[("1a", f"{number}a")])
    found = await ask(graph, "1a")
    assert drawn(found) == {f"1a {number}a" for number in range(2, 2 * PAGE + 10)}


async def test_reading_is_bounded_and_says_so():
    (found,) = await ask(await chain(30), "15a", settings=TimelineSettings(max_read=4))
    assert found.truncated
    assert "15a" in found.memories
    assert len(found.memories) == 7


Sessions = st.tuples(st.integers(1, 10), st.integers(0, 2**32), st.booleans())


async def random_graph(sessions: int, seed: int, dense: bool) -> tuple[DrawnGraph, list[str]]:
    graph, choose, names = DrawnGraph(), random.Random(seed), []
    for session in range(1, sessions + 1):
        new = [f"{session}{'abc'[place]}" for place in range(choose.randint(1, 3))]
        pairs = {(choose.choice(names), name) for name in new for _ in range(choose.randint(0, 3))} if names else set()
        if dense:
            await graph.lay(*new, edges=sorted(pairs))
        else:
            await graph.session(*new, related=sorted(pairs))
        names += new
    return graph, names


@given(Sessions)
@settings(max_examples=60, deadline=None)
def test_timelines_are_exactly_the_paths_of_equation_10(drawn_sessions):
    async def check() -> None:
        graph, names = await random_graph(*drawn_sessions)
        edges = [(edge.older, edge.newer) for edge in await all_edges(graph.store, KEY)]
        for name in names:
            expected = all_paths(name, edges)
            found = await ask(graph, name, settings=TimelineSettings(timelines=1024, max_paths=1024))
            if len(expected) <= 1024:
                assert {timeline.memories for timeline in found} == expected
                assert not any(timeline.truncated for timeline in found)
            some = await ask(graph, name, settings=TimelineSettings(timelines=2, max_paths=4))
            assert len({timeline.memories for timeline in some}) == len(some) >= 1
            assert {timeline.memories for timeline in some} <= expected
            assert some == await ask(graph, name, settings=TimelineSettings(timelines=2, max_paths=4))

    asyncio.run(check())


def all_paths(name: str, edges: list[tuple[str, str]]) -> set[tuple[str, ...]]:
    """Laid out in full: from the oldest of the component, or else the oldest ancestor, through ``name`` to an end."""

    def ways(at: str, forth: bool) -> list[tuple[str, ...]]:
        nexts = [b if forth else a for a, b in edges if (a if forth else b) == at]
        return [(at, *rest) for next_ in nexts for rest in ways(next_, forth)] or [(at,)]

    pasts = [tuple(reversed(way)) for way in ways(name, False)]
    start = min((past[0] for past in pasts), key=order)
    component, grows = {name}, True
    while grows:
        more = {end for edge in edges if component & set(edge) for end in edge}
        grows, component = not more <= component, component | more
    oldest = min(component, key=order)
    assert start == oldest or oldest not in {id_ for past in pasts for id_ in past}
    return {past + future[1:] for past in pasts if past[0] == start for future in ways(name, True)}


@given(Sessions, st.integers(1, 6), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_whatever_is_cut_stays_a_path_through_the_retrieved_memory(drawn_sessions, max_length, max_read):
    async def check() -> None:
        graph, names = await random_graph(*drawn_sessions)
        edges = {(edge.older, edge.newer): edge.relation for edge in await all_edges(graph.store, KEY)}
        bounds = TimelineSettings(max_length=max_length, max_read=max_read)
        for name in names:
            (found,) = await ask(graph, name, settings=bounds)
            assert name in found.memories
            assert len(found.memories) == len(set(found.memories)) <= max_length
            steps = zip(found.memories, found.memories[1:], strict=False)
            assert tuple(edges[step] for step in steps) == found.relations
            if not found.truncated:
                assert found.memories in all_paths(name, list(edges))

    asyncio.run(check())
