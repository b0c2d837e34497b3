"""The vectors of a conversation take little more memory than they are long, also while they are searched."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.ports import Search
from eunoe.workers.stores.vectors.point_group import Group, WholePoint


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def group_of(points: int, dimensions: int) -> Group:
    group, dense = Group(), np.ones(dimensions, "<f4").tobytes()
    for number in range(points):
        id_ = f"00000000-0000-0000-0000-{number:012d}"
        point = Point(collection=Collection.MEMORIES, id=id_, key="c", born=1, seq=1, text="t", dense=dense)
        group.add(WholePoint(point), dense)
    return group


def test_the_room_for_rows_to_come_does_not_grow_with_those_that_are_there():
    points, spare, row = 12_100, 2_048, np.ones(64, "<f4").tobytes()
    one = WholePoint(Point(collection=Collection.MEMORIES, id="i" * 36, key="c", born=1, seq=1, text="t", dense=row))
    with traced():
        group = Group()
        for _ in range(points):
            group.add(one, row)
        held, _ = tracemalloc.get_traced_memory()
    places_and_sessions = 32 * points
    assert held < (points + spare) * len(row) + places_and_sessions


@pytest.mark.parametrize("points", [511, 512, 2_500])
def test_a_deep_search_scores_each_point_and_widens_few_at_once(points: int):
    group, query = group_of(points, 256), np.ones(256, "<f4").tobytes()
    search = Search(Collection.MEMORIES, "c", points, dense=query)
    list(group.nearest([search]))  # what is kept from the first search on
    with traced():
        (found,) = group.nearest([search])
        _, peak = tracemalloc.get_traced_memory()
    assert [score for _, score in found] == [256.0] * points
    assert peak < 2_500_000
