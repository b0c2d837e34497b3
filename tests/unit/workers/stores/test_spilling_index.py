"""An index whose points lie in a temporary file is a `MemoryIndex`."""

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Collection, Point, SparseVector
from eunoe.schemas.errors import Unavailable
from eunoe.schemas.ports import Search
from eunoe.workers.stores.vectors.memory_index import MemoryIndex
from eunoe.workers.stores.vectors.spilling_index import SpillingIndex

FEW_BYTES = 600
"""Two points or so."""
KEYS = ("default/c", "default/d")
IDS = tuple(f"00000000-0000-0000-0000-{number:012d}" for number in range(6))
KINDS = (Collection.MEMORIES, Collection.TREE)
QUERY = np.array([1.0, -0.5, 0.25], "<f4").tobytes()

numbers = st.integers(1, 3)
sparse = st.sampled_from([SparseVector(), SparseVector(indices=(7, 9), values=(0.5, 1 / 3))])
dense = st.lists(st.integers(-2, 2), min_size=3, max_size=3).map(lambda row: np.array(row, "<f4").tobytes())
points = st.builds(
    Point,
    collection=st.sampled_from(KINDS),
    id=st.sampled_from(IDS),
    key=st.sampled_from(KEYS),
    born=numbers,
    seq=numbers,
    text=st.sampled_from(["", "Größe", "a" * 300]),
    dense=dense,
    sparse=sparse,
)
Step = Callable[[MemoryIndex], Awaitable[None]]


def upserting(some: list[Point], fence: int, mark: bool) -> Step:
    return lambda index: index.upsert(some, fence, mark=mark)


def removing(collection: Collection, key: str, ids: list[str]) -> Step:
    return lambda index: index.remove(collection, key, ids)


def fencing(collection: Collection, ids: list[str], fence: int) -> Step:
    return lambda index: index.fence_off(collection, ids, fence)


async def search(index: MemoryIndex) -> list[Any]:
    return await index.search(
        [
            Search(kind, key, limit, dense=query, sparse=words, born_before=before)
            for kind in KINDS
            for key in KEYS
            for limit in (1, 10)
            for before in (None, 3)
            for query, words in ((QUERY, None), (None, SparseVector(indices=(9,), values=(2.0,))))
        ]
    )


async def look(index: MemoryIndex) -> None:
    await search(index)


async def view(index: MemoryIndex) -> None:
    for kind in KINDS:
        for key in KEYS:
            list(index.view(kind, key))


some_ids = st.lists(st.sampled_from(IDS), max_size=3)
steps = st.lists(
    st.one_of(
        st.builds(upserting, st.lists(points, max_size=5), st.integers(0, 2), st.booleans()),
        st.builds(removing, st.sampled_from(KINDS), st.sampled_from(KEYS), some_ids),
        st.builds(fencing, st.sampled_from(KINDS), some_ids, numbers),
        st.just(look),
        st.just(view),
    ),
    max_size=8,
)


async def seen(index: MemoryIndex) -> list[Any]:
    kinds = [
        [await index.points(kind, key), dict(await index.seqs(kind, key)), dict(await index.digests(kind, key))]
        for kind in KINDS
        for key in KEYS
    ]
    return [kinds, await search(index), index.all_points()]


@given(steps)
async def test_an_index_that_spills_finds_what_the_other_one_finds(some: list[Step]) -> None:
    plain, spilling = MemoryIndex(), SpillingIndex(FEW_BYTES)
    for step in some:
        await step(plain)
        await step(spilling)
    assert await seen(spilling) == await seen(plain)


def point(number: int, text: str = "t") -> Point:
    row = np.array([1.0, number, 0.0], "<f4")
    id_ = f"00000000-0000-0000-0000-{number:012d}"
    return Point(
        collection=Collection.MEMORIES, id=id_, key=KEYS[0], born=1, seq=1, text=text * 100, dense=row.tobytes()
    )


async def test_a_file_that_cannot_be_written_is_waited_for_and_changes_nothing() -> None:
    index = SpillingIndex(FEW_BYTES)
    await index.upsert([point(number) for number in range(20)])
    await index.upsert([point(20), *(point(number) for number in range(22, 25))])
    assert index._spill.file is not None
    rows = index._spill.file._rows
    rows.execute("PRAGMA query_only = ON")
    before = await index.points(Collection.MEMORIES, KEYS[0])
    with pytest.raises(Unavailable, match="temporary file of documents cannot be written"):
        await index.upsert([point(21), point(3, "changed")])
    assert await index.points(Collection.MEMORIES, KEYS[0]) == before
    rows.execute("PRAGMA query_only = OFF")
    await index.upsert([point(21)])
    assert await index.points(Collection.MEMORIES, KEYS[0]) == [*before[:21], point(21), *before[21:]]


async def test_a_search_that_could_not_read_all_points_is_repeated_over_all() -> None:
    index = SpillingIndex(FEW_BYTES)
    await index.upsert([point(number) for number in range(20)])
    await index.upsert([point(20)])
    file = index._spill.file
    assert file is not None
    near = Search(Collection.MEMORIES, KEYS[0], 30, dense=QUERY)
    file._rows.execute("ALTER TABLE rows RENAME TO away")
    with pytest.raises(Unavailable):
        await index.search([near])
    file._rows.execute("ALTER TABLE away RENAME TO rows")
    (found,) = await index.search([near])
    assert len(found) == 21


async def test_points_of_a_collection_that_nobody_searches_take_no_vectors_in_memory() -> None:
    index = SpillingIndex(20_000)
    wide = np.ones(256, "<f4").tobytes()
    for number in range(300):
        await index.upsert([point(number).model_copy(update={"dense": wide})])
    (group,) = index._groups.values()
    assert (group._rows.nbytes, index._spill.held < 25_000) == (0, True)
    await index.search([Search(Collection.MEMORIES, KEYS[0], 1, dense=wide)])
    assert group._rows.nbytes >= 300 * len(wide)
    index.view(Collection.MEMORIES, KEYS[0])
    assert group._rows.nbytes == 0
