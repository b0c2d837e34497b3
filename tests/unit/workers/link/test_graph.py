"""The memory graph: which edges Algorithm 1 makes, and components that are kept, never computed again."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.schemas.relations import Relation
from eunoe.workers.link.graph import (
    COMPONENTS,
    NAME,
    PAGE,
    PARENTS,
    Component,
    Page,
    Parent,
    Related,
    Vertex,
    append_newer,
    choose_links,
    unite,
)
from eunoe.workers.link.reads import all_edges, read_neighbours, read_stored_neighbours
from tests.support.graphs import KEY, DrawnGraph, order


def related(*pairs: str) -> list[Related]:
    return [Related(order(older), order(newer), Relation.CAUSE) for older, newer in (pair.split(">") for pair in pairs)]


def edges(links: tuple[Related, ...]) -> list[str]:
    return [f"{link.older.memory_id}>{link.newer.memory_id}" for link in links]


def test_the_most_recent_related_memory_of_each_component_is_linked():
    roots = {"1a": "1a", "2a": "1a", "1b": "1b"}
    assert edges(choose_links(related("1a>3a", "2a>3a", "1b>3a"), roots)) == ["1b>3a", "2a>3a"]


def test_of_one_session_the_later_memory_is_the_more_recent():
    assert edges(choose_links(related("1b>2a", "1a>2a"), {"1a": "1a", "1b": "1a"})) == ["1b>2a"]


def test_a_memory_unknown_to_the_graph_is_a_component_by_itself():
    assert edges(choose_links(related("1a>2a", "1b>2a"), {"1a": "1a"})) == ["1a>2a", "1b>2a"]


def test_a_suspected_pair_goes_before_more_recent_ones_of_its_component():
    older, newer = related("1a>3a", "2a>3a")
    pairs = [older._replace(suspected=True), newer]
    assert edges(choose_links(pairs, {"1a": "1a", "2a": "1a"})) == ["1a>3a"]
    assert edges(choose_links(pairs[::-1], {"1a": "1a", "2a": "1a"})) == ["1a>3a"]
    assert edges(choose_links(pairs, {"1a": "1a", "2a": "2a"})) == ["1a>3a", "2a>3a"]
    both = [pair._replace(suspected=True) for pair in (older, newer)]
    assert edges(choose_links(both, {"1a": "1a", "2a": "1a"})) == ["2a>3a"]


@pytest.mark.parametrize("pair", ["2a>2b", "3a>2a"])
def test_an_edge_must_come_from_an_earlier_session(pair):
    with pytest.raises(ValueError, match="earlier session"):
        choose_links(related(pair), {})


async def test_two_components_meet_in_one_new_memory():
    graph = DrawnGraph()
    await graph.session("1a", "1b")
    await graph.session("2a", "2b", related=[("1a", "2a"), ("1b", "2b")])
    assert await graph.session("3a", related=[("1a", "3a"), ("2a", "3a"), ("2b", "3a")]) == (("2a", "3a"), ("2b", "3a"))
    # they are one now: one edge is enough
    assert await graph.session("4a", related=[("2a", "4a"), ("2b", "4a")]) == (("2b", "4a"),)


async def test_components_are_those_before_the_session():
    graph = DrawnGraph()
    await graph.session("1a", "1b")
    made = await graph.session("2a", "2b", related=[("1a", "2a"), ("1b", "2a"), ("1a", "2b"), ("1b", "2b")])
    assert made == (("1a", "2a"), ("1b", "2a"), ("1a", "2b"), ("1b", "2b"))


async def test_a_memory_that_was_skipped_enters_with_its_first_edge():
    graph = DrawnGraph()
    await graph.session("2a", related=[("1a", "2a")])
    known = await read_stored_neighbours(graph.store, KEY, ["1a"])
    assert known.components[known.roots["1a"]] == Component(root="1a", size=2, oldest=order("1a"))


async def test_neighbours_are_those_one_edge_away_in_either_direction():
    graph = DrawnGraph()
    await graph.session("1a", "1b")
    await graph.session("2a", related=[("1a", "2a")])
    await graph.session("3a", related=[("2a", "3a")])
    assert await read_neighbours(graph.store, KEY, ["2a", "1b", "9z"]) == {"2a": ["1a", "3a"], "1b": []}


@pytest.mark.parametrize("degree", [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 5])
@pytest.mark.parametrize("more", [1, 2, PAGE, 2 * PAGE + 1])
def test_outgoing_edges_go_into_pages_in_order(degree, more):
    vertex, stored = Vertex(session=1, index=0), {}
    for added in (range(degree), range(degree, degree + more)):
        last = stored.get(vertex.further_pages[-1], Page()) if vertex.further_pages else Page()
        vertex, pages = append_newer(vertex, last, [f"m{number}" for number in added])
        stored |= pages
    read = [*vertex.newer, *(id_ for number in vertex.further_pages for id_ in stored[number].newer)]
    assert read == [f"m{number}" for number in range(degree + more)]
    assert vertex.degree == degree + more
    assert all(len(page.newer) <= PAGE for page in stored.values())


def test_the_larger_component_gives_the_root_and_the_oldest_is_kept():
    large = Component(root="2a", size=3, oldest=order("2a"))
    small = Component(root="1a", size=1, oldest=order("1a"))
    apart = Component(root="5a", size=9, oldest=order("5a"))
    after = unite([small, large, apart], [("1a", "2a"), ("2a", "1a")])
    whole = Component(root="2a", size=4, oldest=order("1a"))
    assert after == {"1a": whole, "2a": whole, "5a": apart}


Sessions = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), max_size=9)),
    min_size=1,
    max_size=8,
)


async def grown(drawn) -> tuple[DrawnGraph, list[set[str]]]:
    """The graph of drawn sessions, and after each session the components found by walking all edges."""
    graph, names, found = DrawnGraph(), [], []
    for session, (count, pairs) in enumerate(drawn, start=1):
        new = [f"{session}{'abcd'[place]}" for place in range(count)]
        wanted = [(names[a % len(names)], new[b % count]) for a, b in pairs] if names else []
        before = components(names, await all_edges(graph.store, KEY))
        made = await graph.session(*new, related=sorted(set(wanted)))
        per_component = [(newer, next(i for i, part in enumerate(before) if older in part)) for older, newer in made]
        assert len(per_component) == len(set(per_component)), "two edges from one component to one memory"
        assert {newer for _, newer in made} == {newer for _, newer in wanted}
        names += new
        found = components(names, await all_edges(graph.store, KEY))
    return graph, found


def components(names, all_) -> list[set[str]]:
    """By flooding."""
    beside = {name: set() for name in names}
    for edge in all_:
        beside[edge.older].add(edge.newer)
        beside[edge.newer].add(edge.older)
    parts, seen = [], set()
    for name in names:
        if name in seen:
            continue
        part, open_ = set(), [name]
        while open_:
            here = open_.pop()
            if here not in part:
                part.add(here)
                open_.extend(beside[here])
        seen |= part
        parts.append(part)
    return parts


@given(Sessions)
@settings(max_examples=80, deadline=None)
def test_kept_components_are_those_that_walking_all_edges_finds(drawn):
    async def check() -> None:
        graph, parts = await grown(drawn)
        assert all(order(edge.older).session < order(edge.newer).session for edge in await all_edges(graph.store, KEY))
        stored = await graph.store.scan(NAME, KEY, COMPONENTS)
        known = await read_stored_neighbours(graph.store, KEY, sorted(set().union(*parts)))
        for part in parts:
            (root,) = {known.roots[name] for name in part}
            whole = Component.from_json(stored.pop(root))
            assert whole == Component(root=root, size=len(part), oldest=min(map(order, part)))
        assert stored == {}

    asyncio.run(check())


async def test_a_root_is_few_steps_away_and_a_session_touches_few_documents():
    graph, choose, names = DrawnGraph(), random.Random(5), []
    for session in range(1, 301):
        new = [f"{session}{letter}" for letter in "abc"]
        wanted = {(choose.choice(names), name) for name in new for _ in range(3)} if names else set()
        before = dict(await graph.store.scan(NAME, KEY, PARENTS))
        await graph.session(*new, related=sorted(wanted))
        after = await graph.store.scan(NAME, KEY, PARENTS)
        changed = [id_ for id_ in after if after[id_] != before.get(id_)]
        assert len(changed) <= 3 + 9 * 11
        names += new
    parents = {id_: Parent.from_json(text).id for id_, text in after.items()}
    assert max(steps(name, parents) for name in names) <= 10


def steps(name: str, parents: dict[str, str]) -> int:
    return 0 if parents[name] == name else 1 + steps(parents[name], parents)
