"""Insertion and marking: a tree at every step, read no further than the path."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.errors import TornRead
from eunoe.workers.tree.aggregates import tasks_of
from eunoe.workers.tree.ending import mark_ended
from eunoe.workers.tree.nodes import ROOT, TreeNode
from eunoe.workers.tree.retrieve import ancestors_of
from eunoe.workers.tree.settings import TreeSettings
from eunoe.workers.tree.tree import LeafEntry, WorkingTree, base_threshold, best_child, insert, threshold
from tests.support.in_memory import START
from tests.support.tree import check_tree

SMALL = TreeSettings(fan_out=3)


def unit(values: Sequence[float]) -> np.ndarray:
    row = np.asarray(values, dtype=np.float64) + 1e-3
    return (row / np.linalg.norm(row)).astype(np.float32)


def rows(max_size: int = 20) -> st.SearchStrategy[list[np.ndarray]]:
    one = st.lists(st.integers(-3, 3), min_size=4, max_size=4).map(unit)
    return st.lists(one, max_size=max_size)


def entry(number: int) -> LeafEntry:
    return LeafEntry(f"e{number}", f"text {number}", ("Ann" if number % 2 else "Ben",), START)


def fresh_growth(session: int = 1) -> WorkingTree:
    return WorkingTree(session, lambda index: f"n{session}-{index:03d}")


def finish(steps):
    """Run a generator that needs nothing; its result."""
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


def grown(vectors: Sequence[np.ndarray], settings: TreeSettings = SMALL, base: float = 0.4) -> WorkingTree:
    growth = fresh_growth()
    for number, vector in enumerate(vectors):
        finish(insert(growth, entry(number), vector, base, settings))
    return growth


@given(rows())
def test_it_is_a_tree_at_every_step(vectors):
    growth = fresh_growth()
    for number, vector in enumerate(vectors):
        done = finish(insert(growth, entry(number), vector, 0.4, SMALL))
        check_tree(growth.nodes, [f"e{place}" for place in range(number + 1)], SMALL.fan_out)
        above, node = [], growth.nodes[done.leaf]
        while node.parent != ROOT:
            node = growth.nodes[node.parent]
            above.append(node.node_id)
        assert done.touched == tuple(reversed(above))
        assert set(done.touched) <= set(growth.touched)
        assert np.allclose(growth.vectors[done.leaf], vector)


@given(rows(max_size=20), st.randoms(use_true_random=False))
def test_any_order_gives_a_tree_and_the_same_order_the_same_one(vectors, random):
    first, again = grown(vectors), grown(vectors)
    assert first.nodes == again.nodes
    assert first.insertions == again.insertions
    shuffled = list(vectors)
    random.shuffle(shuffled)
    check_tree(grown(shuffled).nodes, [f"e{place}" for place in range(len(vectors))], SMALL.fan_out)


@given(rows(max_size=20))
def test_sums_are_those_of_the_leaves_below(vectors):
    growth = grown(vectors)

    def below(id_: str) -> np.ndarray:
        node = growth.nodes[id_]
        return growth.vectors[id_] if node.is_leaf else np.sum([below(child) for child in node.children], axis=0)

    for id_, node in growth.nodes.items():
        if not node.is_leaf and id_ != ROOT:
            assert np.allclose(growth.sums[id_], below(id_), atol=1e-4)


@given(rows(max_size=20), rows(max_size=3))
def test_a_tree_read_on_the_way_grows_like_one_that_is_there(vectors, more):
    whole = grown(vectors)
    known = WorkingTree(2, lambda index: f"n2-{index}", dict(whole.nodes), dict(whole.vectors), dict(whole.sums))
    lazy = WorkingTree(2, lambda index: f"n2-{index}")
    lazy.nodes[ROOT] = whole.nodes[ROOT]
    for number, vector in enumerate(more):
        arrival = entry(100 + number)
        expected = finish(insert(known, arrival, vector, 0.4, SMALL))
        read = set()
        steps = insert(lazy, arrival, vector, 0.4, SMALL)
        for need in steps:
            read |= {*need.nodes}
            lazy.nodes |= {id_: whole.nodes[id_] for id_ in need.nodes}
            lazy.sums |= {id_: whole.sums[id_] for id_ in need.nodes if id_ in whole.sums}
            lazy.vectors |= {id_: whole.vectors[id_] for id_ in need.vectors}
        assert lazy.insertions[-1] == expected
        assert read <= set(expected.path)
    for id_ in lazy.changed:
        assert lazy.nodes[id_] == known.nodes[id_]
    assert lazy.changed == known.changed


def test_a_leaf_that_is_reached_becomes_the_child_of_a_new_parent_and_ends_the_descent():
    growth = grown([unit([1, 0, 0, 0]), unit([1, 0, 0, 0])])
    (top,) = growth.nodes[ROOT].children
    parent = growth.nodes[top]
    assert [growth.nodes[id_].entry for id_ in parent.children] == ["e0", "e1"]
    assert [growth.nodes[id_].depth for id_ in parent.children] == [2, 2]
    assert growth.insertions[1].created == (parent.children[1], top)
    assert growth.insertions[1].touched == (top,)
    assert growth.fresh[top] == list(parent.children)


def test_a_new_parent_carries_the_mean_of_its_two_until_it_is_aggregated():
    a, b = unit([1, 0, 0, 0]), unit([1, 1, 0, 0])
    growth = grown([a, b])
    (top,) = growth.nodes[ROOT].children
    mean = (a + b) / np.linalg.norm(a + b)
    assert np.allclose(growth.vectors[top], mean, atol=1e-6)
    finish(insert(growth, entry(2), unit([1, 0, 1, 0]), 0.4, SMALL))
    assert np.allclose(growth.vectors[top], mean, atol=1e-6)


def test_below_the_threshold_a_new_leaf_hangs_where_the_descent_ended():
    growth = grown([unit([1, 0, 0, 0]), unit([0, 1, 0, 0])])
    assert [growth.nodes[id_].entry for id_ in growth.nodes[ROOT].children] == ["e0", "e1"]
    assert growth.touched == []


def test_a_full_node_sends_the_entry_to_its_most_similar_child():
    axes = [unit(row) for row in np.eye(4)]
    growth = grown(axes)
    assert len(growth.nodes[ROOT].children) == SMALL.fan_out
    assert [done.diversions for done in growth.insertions] == [0, 0, 0, 1]


def test_near_duplicates_stop_where_the_threshold_passes_one():
    growth = grown([unit([1, 2, 3, 1])] * 300, TreeSettings(), base=0.4)
    check_tree(growth.nodes, [f"e{place}" for place in range(300)], 32)
    assert max(node.depth for node in growth.nodes.values()) <= 14


def test_the_threshold_rises_with_depth_as_in_the_paper():
    settings = TreeSettings(d_max=4)
    assert threshold(0.4, 0, settings) == pytest.approx(0.4)
    assert threshold(0.4, 4, settings) == pytest.approx(0.4 * np.exp(0.5))
    assert threshold(0.4, 8, settings) > 1


def test_the_base_threshold_is_the_quantile_of_all_pairs_clipped():
    alike = np.stack([unit([1, 0, 0, 0])] * 5)
    assert base_threshold(alike, TreeSettings()) == 0.55
    assert base_threshold(np.eye(4, dtype=np.float32), TreeSettings()) == 0.2
    mixed = np.stack([unit([1, 0, 0, 0]), unit([3, 4, 0, 0])])
    assert base_threshold(mixed, TreeSettings(highest_threshold=0.99)) == pytest.approx(0.6, abs=0.001)


def test_of_equally_similar_children_the_smallest_id_is_taken():
    same = np.stack([unit([1, 0, 0, 0])] * 3)
    assert best_child(("c", "a", "b"), same, same[0]) == ("a", 1.0)


@given(rows(max_size=20), st.data())
def test_marking_touches_all_ancestors_once_and_takes_the_leaf_out_of_their_sums(vectors, data):
    whole = grown(vectors)
    leaves = [id_ for id_, node in whole.nodes.items() if node.is_leaf]
    if not leaves:
        return
    leaf = data.draw(st.sampled_from(leaves))
    growth = WorkingTree(2, str, dict(whole.nodes), dict(whole.vectors), dict(whole.sums))
    finish(mark_ended(growth, leaf))
    finish(mark_ended(growth, leaf))
    assert growth.nodes[leaf].ended
    assert growth.nodes[leaf].changed == 2
    above, node = [], growth.nodes[leaf]
    while node.parent != ROOT:
        node = growth.nodes[node.parent]
        above.append(node.node_id)
    assert sorted(growth.dropped) == sorted(above)
    for id_ in above:
        assert growth.dropped[id_] == [leaf]
        assert growth.nodes[id_].current == whole.nodes[id_].current - 1
        assert np.allclose(growth.sums[id_], whole.sums[id_] - whole.vectors[leaf], atol=1e-5)
    check_tree(growth.nodes, [whole.nodes[id_].entry or "" for id_ in leaves], SMALL.fan_out)


def test_a_task_tells_what_is_new_and_what_must_go():
    growth = grown([unit([1, 0, 0, 0])] * 2)
    (top,) = growth.nodes[ROOT].children
    growth.nodes[top] = growth.nodes[top].model_copy(update={"text": "both"})
    later = WorkingTree(2, lambda index: f"n2-{index}", growth.nodes, growth.vectors, growth.sums)
    finish(mark_ended(later, growth.nodes[top].children[0]))
    finish(insert(later, entry(2), unit([0, 1, 1, 0]) + unit([1, 0, 0, 0]), 0.1, SMALL))
    tasks = {task.node_id: task for task in tasks_of(later)}
    assert tasks[top].text == "both"
    assert tasks[top].news == ("text 2",)
    assert tasks[top].drop == ("text 0",)
    assert tasks[top].descendants == 3
    assert tasks[top].speakers == ("Ben", "Ann")


def test_a_tree_that_was_read_while_it_changed_is_read_again_not_walked_for_ever():
    above = TreeNode(node_id="a", parent="b", depth=1, children=("b",), descendants=1, current=1)
    below = TreeNode(node_id="b", parent="a", depth=2, children=("a",), descendants=1, current=1)
    with pytest.raises(TornRead):
        ancestors_of(above, {"a": above, "b": below})
