"""The index in memory finds what comparing with every point finds."""

import numpy as np

from eunoe.schemas.decisions import Collection, Point
from eunoe.schemas.ports import Search
from eunoe.workers.stores.vectors.hits import DIGITS
from eunoe.workers.stores.vectors.memory_index import MemoryIndex

POINTS, DIMENSIONS = 300, 4


def point(number: int, dense: bytes) -> Point:
    id_ = f"00000000-0000-0000-0000-{number:012d}"
    return Point(collection=Collection.MEMORIES, id=id_, key="c", born=1 + number // 50, seq=1, text="t", dense=dense)


async def test_the_nearest_points_are_found_also_where_many_are_equally_near():
    chance = np.random.default_rng(1)
    # few levels: most scores are those of several points, and some differ by less than is rounded
    rows = chance.integers(-2, 3, (POINTS, DIMENSIONS)).astype("<f4")
    rows += chance.choice([0.0, 2e-7, -2e-7], rows.shape).astype("<f4")
    index = MemoryIndex()
    await index.upsert([point(number, row.tobytes()) for number, row in enumerate(rows)])
    query = np.array([1.0, -0.5, 0.25, 0.75], "<f4")
    for limit in (0, 1, 7, 100, POINTS, POINTS + 1):
        for before in (None, 4):
            search = Search(Collection.MEMORIES, "c", limit, dense=query.tobytes(), born_before=before)
            (found,) = await index.search([search])
            known = rows if before is None else rows[: (before - 1) * 50]
            scores = [round(float(score), DIGITS) + 0.0 for score in known.astype(np.float64) @ query]
            best = sorted(range(len(known)), key=lambda place: (-scores[place], place))[:limit]
            assert [(hit.id, hit.score) for hit in found] == [(point(n, b"").id, scores[n]) for n in best]


async def test_close_points_keep_their_order_where_many_queries_are_answered_together():
    chance = np.random.default_rng(2)
    rows = np.abs(chance.standard_normal((2_000, 256)))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")
    index = MemoryIndex()
    await index.upsert([point(number, row.tobytes()) for number, row in enumerate(rows)])
    queries = rows[:8]
    found = await index.search([Search(Collection.MEMORIES, "c", 200, dense=query.tobytes()) for query in queries])
    for query, hits in zip(queries, found, strict=True):
        exact = np.round(rows.astype(np.float64) @ query.astype(np.float64), DIGITS)
        best = sorted(range(len(rows)), key=lambda place: (-exact[place], place))[:200]
        assert [(hit.id, hit.score) for hit in hits] == [(point(n, b"").id, exact[n]) for n in best]


async def test_a_second_search_finds_what_came_moved_and_went_since_the_first():
    chance = np.random.default_rng(4)
    rows = {number: chance.standard_normal(DIMENSIONS).astype("<f4") for number in range(POINTS)}
    index = MemoryIndex()
    await index.upsert([point(number, row.tobytes()) for number, row in rows.items()])
    query = rows[5]
    search = Search(Collection.MEMORIES, "c", 20, dense=query.tobytes())
    for number in (0, 5, POINTS - 1):
        await index.search([search])
        await index.remove(Collection.MEMORIES, "c", [point(number, b"").id])
        del rows[number]
        rows[number + POINTS] = (query * (number + 2)).astype("<f4")
        await index.upsert([point(number + POINTS, rows[number + POINTS].tobytes())])
        (found,) = await index.search([search])
        scores = {n: round(float(row.astype(np.float64) @ query.astype(np.float64)), DIGITS) for n, row in rows.items()}
        best = sorted(rows, key=lambda n: (-scores[n], n))[:20]
        assert [(hit.id, hit.score) for hit in found] == [(point(n, b"").id, scores[n]) for n in best]
