"""`VectorIndex`: newer over older, one conversation at a time, exact and in a fixed order."""

from collections.abc import Sequence
from uuid import UUID, uuid5

import numpy as np
import pytest
from numpy.typing import NDArray

from eunoe.schemas.decisions import Collection, Point, SparseVector, digest_of_text
from eunoe.schemas.errors import Refused
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import Hit, Search, VectorIndex
from eunoe.workers.stores.vectors.qdrant import QdrantIndex

KEY = "acme/c1"
SEGMENTS = Collection.SEGMENTS
DIMENSIONS = 8
SPACE = UUID("5c6a8f2e-7d53-5f0b-9e52-2f6c1b7a9d42")


def uid(number: int) -> str:
    return str(UUID(int=number))


def unit(*values: float) -> bytes:
    row = np.zeros(DIMENSIONS, dtype="<f4")
    row[: len(values)] = values
    return (row / np.linalg.norm(row)).astype("<f4").tobytes()


def point(number: int, dense: bytes = unit(1), seq: int = 1, born: int = 1, key: str = KEY, **more: object) -> Point:
    return Point.model_validate(
        {"collection": SEGMENTS, "id": uid(number), "key": key, "born": born, "seq": seq, "text": f"{number} {seq}"}
        | {"dense": dense}
        | more
    )


def sparse(weights: dict[int, float]) -> SparseVector:
    return SparseVector(indices=tuple(sorted(weights)), values=tuple(weights[index] for index in sorted(weights)))


def by_vector(dense: bytes = unit(1), limit: int = 10, key: str = KEY, before: int | None = None) -> Search:
    return Search(collection=SEGMENTS, key=key, limit=limit, dense=dense, born_before=before)


def by_terms(weights: dict[int, float], limit: int = 10, key: str = KEY, before: int | None = None) -> Search:
    return Search(collection=SEGMENTS, key=key, limit=limit, sparse=sparse(weights), born_before=before)


async def ids(index: VectorIndex, search: Search) -> list[str]:
    return [hit.id for hit in (await index.search([search]))[0]]


@pytest.fixture(autouse=True)
async def _prepared(index: VectorIndex) -> None:
    await index.prepare("words-1", DIMENSIONS)


async def test_preparing_twice_changes_nothing(index: VectorIndex) -> None:
    await index.upsert([point(1)])
    await index.prepare("words-1", DIMENSIONS)
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 1}


@pytest.mark.parametrize(("embedder", "dimensions"), [("words-2", DIMENSIONS), ("words-1", 9)])
async def test_another_embedder_is_refused(index: VectorIndex, embedder: str, dimensions: int) -> None:
    with pytest.raises(Refused, match=r"words-1.*8.*rebuild"):
        await index.prepare(embedder, dimensions)
    await index.prepare("words-1", DIMENSIONS)


async def test_nothing_there_nothing_found(index: VectorIndex) -> None:
    assert await index.search([]) == []
    assert await index.search([by_vector(), by_terms({1: 1.0})]) == [[], []]
    assert await index.seqs(SEGMENTS, KEY) == {}
    await index.upsert([])


async def test_searches_that_ask_nothing_find_nothing(index: VectorIndex) -> None:
    await index.upsert([point(1, sparse=sparse({1: 1.0}))])
    asked = [by_terms({}), by_vector(limit=0), Search(SEGMENTS, KEY, 5), by_vector(limit=1), by_terms({2: 1.0})]
    assert [len(hits) for hits in await index.search(asked)] == [0, 0, 0, 1, 0]


async def test_an_older_point_never_overwrites_a_newer(index: VectorIndex) -> None:
    await index.upsert([point(1, unit(1), seq=3)])
    await index.upsert([point(1, unit(0, 1), seq=2), point(2, unit(0, 1), seq=2)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 3, uid(2): 2}
    assert await index.search([by_vector(unit(0, 1))]) == [[Hit(uid(2), 1.0), Hit(uid(1), 0.0)]]


async def test_a_point_of_a_smaller_number_overwrites_up_to_a_given_one(index: VectorIndex) -> None:
    await index.upsert([point(1, seq=5), point(2, seq=6)])
    await index.upsert([point(1, seq=3), point(2, seq=3)], over={uid(1): 5, uid(2): 5})
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 3, uid(2): 6}
    await index.upsert([point(1, seq=4)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 4, uid(2): 6}


@pytest.mark.parametrize(
    "payload", [{}, {"born": "x", "seq": "y", "digest": 7, "text": []}, {"born": 1.5, "seq": None}], ids=str
)
async def test_a_damaged_point_stops_nothing_and_is_replaced(index: VectorIndex, payload: dict[str, object]) -> None:
    if not isinstance(index, QdrantIndex):
        pytest.skip("no other hand writes there")
    name = index._keys.collection(SEGMENTS)
    vectors = {"dense": [1.0] + [0.0] * (DIMENSIONS - 1)}
    stored = [{"id": uid(number), "vector": vectors, "payload": {"key": KEY, **payload}} for number in (1, 2)]
    await index._client._send("PUT", f"/collections/{name}/points?wait=true", {"points": stored})
    await index.upsert([point(3)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 0, uid(2): 0, uid(3): 1}
    assert (await index.digests(SEGMENTS, KEY))[uid(1)] == ""
    assert [found.id for found in await index.points(SEGMENTS, KEY)] == [uid(3)]
    assert await ids(index, by_vector(before=2)) == [uid(3)]
    await index.upsert([point(1)])
    await index.remove(SEGMENTS, KEY, [uid(2)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 1, uid(3): 1}


async def test_the_same_and_a_newer_point_overwrite(index: VectorIndex) -> None:
    await index.upsert([point(1, unit(1), seq=3)])
    await index.upsert([point(1, unit(0, 1), seq=3)])
    assert await index.search([by_vector(unit(0, 1))]) == [[Hit(uid(1), 1.0)]]
    await index.upsert([point(1, unit(0, 0, 1), seq=10)])
    assert await index.search([by_vector(unit(0, 0, 1))]) == [[Hit(uid(1), 1.0)]]
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 10}


async def test_in_one_call_the_newest_wins_whatever_the_order(index: VectorIndex) -> None:
    await index.upsert([point(1, unit(1), seq=5), point(1, unit(0, 1), seq=4), point(2, seq=4), point(2, seq=6)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 5, uid(2): 6}
    said = {uid(1): "1 5", uid(2): "2 6"}
    assert await index.digests(SEGMENTS, KEY) == {id_: digest_of_text(text) for id_, text in said.items()}
    assert (await index.search([by_vector(unit(1), limit=1)]))[0][0] == Hit(uid(1), 1.0)


async def test_an_overwritten_point_keeps_no_old_terms(index: VectorIndex) -> None:
    await index.upsert([point(1, seq=1, sparse=sparse({1: 1.0, 2: 1.0}))])
    await index.upsert([point(1, seq=2, sparse=sparse({2: 3.0}))])
    assert await index.search([by_terms({1: 1.0}), by_terms({2: 2.0})]) == [[], [Hit(uid(1), 6.0)]]
    await index.upsert([point(1, seq=3)])
    assert await index.search([by_terms({2: 2.0})]) == [[]]


async def test_only_sessions_before_are_found(index: VectorIndex) -> None:
    await index.upsert([point(number, born=number, seq=9, sparse=sparse({1: 1.0})) for number in (1, 2, 3, 10)])
    assert await ids(index, by_vector(before=3)) == await ids(index, by_terms({1: 1.0}, before=3)) == [uid(1), uid(2)]
    assert await ids(index, by_vector(before=1)) == []
    assert await ids(index, by_vector(before=11)) == await ids(index, by_vector()) == [uid(n) for n in (1, 2, 3, 10)]


async def test_earlier_sessions_are_found_behind_many_points_of_later_ones(index: VectorIndex) -> None:
    later = [point(number, unit(1, number / 1_000), born=5) for number in range(1, 101)]
    earlier = [point(number, unit(1, 1 + number), born=2) for number in range(101, 104)]
    await index.upsert([*later, *earlier])
    assert await ids(index, by_vector(limit=2, before=5)) == [uid(101), uid(102)]
    assert await ids(index, by_vector(limit=2, before=6)) == [uid(1), uid(2)]


async def test_conversations_do_not_see_each_other(index: VectorIndex) -> None:
    names = [
        ("acme", "c1"),
        ("acme", "C1"),
        ("acme", "c1 "),
        ("other", "c1"),
        ("a{b}", "%7B"),
        ("지민", "대화"),
        ("지", "민대화"),
    ]
    keys = [conversation_key(*name) for name in names]
    await index.upsert([point(n, key=key, sparse=sparse({1: 1.0})) for n, key in enumerate(keys, start=1)])
    found = await index.search([by_vector(key=key) for key in keys] + [by_terms({1: 1.0}, key=key) for key in keys])
    assert [[hit.id for hit in hits] for hits in found] == [[uid(n)] for n in range(1, len(keys) + 1)] * 2
    assert await index.seqs(SEGMENTS, keys[4]) == {uid(5): 1}
    assert await index.digests(SEGMENTS, keys[4]) == {uid(5): digest_of_text("5 1")}
    assert await ids(index, by_vector(key="acme/c")) == []


async def test_equal_scores_are_ordered_by_id_also_at_the_cut(index: VectorIndex) -> None:
    numbers = [(number * 7) % 101 for number in range(101)]  # 0 to 100, in no order
    await index.upsert([point(n, unit(1), sparse=sparse({1: 2.0})) for n in numbers])
    await index.upsert([point(500, unit(1, 0.1), sparse=sparse({1: 1.0, 2: 5.0}))])
    assert await ids(index, by_vector(limit=5)) == [uid(n) for n in range(5)]
    assert await ids(index, by_terms({1: 1.0, 2: 1.0}, limit=4)) == [uid(500), uid(0), uid(1), uid(2)]
    assert await ids(index, by_vector(limit=101)) == [uid(n) for n in range(101)]
    assert await ids(index, by_vector(limit=1000)) == [*(uid(n) for n in range(101)), uid(500)]


def _expected(ids_: Sequence[str], scores: NDArray[np.float64], limit: int) -> list[tuple[str, float]]:
    ranked = sorted(zip(ids_, scores.tolist(), strict=True), key=lambda pair: (-round(pair[1], 6), pair[0]))
    return ranked[:limit]


async def test_searches_are_exact(index: VectorIndex) -> None:
    random = np.random.default_rng(7)
    rows = random.normal(size=(700, DIMENSIONS))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("<f4")
    weights = np.round(random.random((700, 40)) * (random.random((700, 40)) < 0.2), 3)
    names = [str(uuid5(SPACE, str(n))) for n in range(700)]
    points = [
        point(0, row.tobytes(), born=n % 50 + 1, id=names[n], sparse=sparse({i: w for i, w in enumerate(line) if w}))
        for n, (row, line) in enumerate(zip(rows, weights.tolist(), strict=True))
    ]
    await index.upsert(points)
    queries = random.normal(size=(6, DIMENSIONS))
    queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype("<f4")
    early = [n for n in range(700) if points[n].born < 30]
    found = await index.search([by_vector(query.tobytes(), 20, before=30) for query in queries])
    for query, hits in zip(queries, found, strict=True):
        scores = rows[early].astype(float) @ query.astype(float)
        _alike(hits, _expected([names[n] for n in early], scores, 20))
    terms = {1: 1.0, 5: 0.5, 17: 2.0}
    with_terms = [n for n in range(700) if weights[n, list(terms)].any()]
    scores = weights[with_terms][:, list(terms)] @ np.array(list(terms.values()))
    _alike((await index.search([by_terms(terms, 30)]))[0], _expected([names[n] for n in with_terms], scores, 30))


def _alike(hits: list[Hit], expected: list[tuple[str, float]]) -> None:
    """The same hits; neighbours closer than float32 can tell may change places."""
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=2e-6)
    where = dict(expected)
    assert {hit.id for hit in hits} == set(where)
    assert all(hit.score == pytest.approx(where[hit.id], abs=2e-6) for hit in hits)
    assert all(hit.score == round(hit.score, 6) for hit in hits)


async def test_a_whole_long_conversation_is_listed(index: VectorIndex) -> None:
    await index.upsert([point(number, seq=number % 3 + 1) for number in range(1, 2_301)])
    assert await index.seqs(SEGMENTS, KEY) == {uid(number): number % 3 + 1 for number in range(1, 2_301)}


async def test_some_points_of_the_conversation_are_listed_and_no_other(index: VectorIndex) -> None:
    await index.upsert([point(number, seq=number) for number in (1, 2, 3)] + [point(4, key="acme/c2")])
    assert await index.seqs(SEGMENTS, KEY, [uid(1), uid(3), uid(4), uid(9)]) == {uid(1): 1, uid(3): 3}
    assert await index.seqs(SEGMENTS, KEY, []) == {}


async def test_points_come_back_whole(index: VectorIndex) -> None:
    there = [point(2, unit(3, 4), seq=5, born=2, sparse=sparse({7: 0.5, 2**31: 1.5})), point(1, text="café {}")]
    await index.upsert([*there, point(3, key="acme/c2")])
    found = await index.points(SEGMENTS, KEY)
    assert [one.id for one in found] == [uid(1), uid(2)]
    unknown = {"dense": b"", "text": "", "digest": None}
    assert [one.model_copy(update=unknown) for one in found] == [
        one.model_copy(update=unknown) for one in reversed(there)
    ]
    assert [one.text_digest for one in found] == [one.text_digest for one in reversed(there)]
    assert np.allclose(np.frombuffer(found[1].dense, "<f4"), np.frombuffer(unit(3, 4), "<f4"), atol=1e-6)
    assert await index.points(Collection.TREE, KEY) == []


async def test_points_of_the_conversation_are_removed_and_no_other(index: VectorIndex) -> None:
    await index.upsert([point(number) for number in (1, 2, 3)] + [point(4, key="acme/c2")])
    await index.remove(SEGMENTS, KEY, [uid(1), uid(4), uid(9)])
    await index.remove(SEGMENTS, KEY, [])
    assert list(await index.seqs(SEGMENTS, KEY)) == [uid(2), uid(3)]
    assert list(await index.seqs(SEGMENTS, "acme/c2")) == [uid(4)]


async def test_a_point_that_was_fenced_off_is_not_written_by_who_is_late(index: VectorIndex) -> None:
    await index.upsert([point(1, sparse=sparse({1: 1.0})), point(2), point(4, key="acme/c2")])
    await index.fence_off(SEGMENTS, [uid(1), uid(3)], 5)
    assert await index.seqs(SEGMENTS, KEY) == {uid(2): 1}
    assert await index.search([by_vector(), by_terms({1: 1.0})]) == [[Hit(uid(2), 1.0)], []]
    late = [point(1, seq=9, sparse=sparse({1: 1.0})), point(3, seq=9), point(5, seq=9)]
    await index.upsert(late)
    await index.upsert(late, 4)
    assert await index.seqs(SEGMENTS, KEY) == {uid(2): 1, uid(5): 9}
    await index.fence_off(SEGMENTS, [uid(1)], 4)  # an older one takes nothing back
    await index.upsert(late, 4)
    assert uid(1) not in await index.seqs(SEGMENTS, KEY)
    await index.upsert([point(1), point(3)], 5)
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 1, uid(2): 1, uid(3): 1, uid(5): 9}
    await index.remove(SEGMENTS, KEY, [uid(1)])
    await index.fence_off(SEGMENTS, [], 7)
    assert list(await index.seqs(SEGMENTS, "acme/c2")) == [uid(4)]


async def test_points_that_demand_a_fence_are_not_overwritten_by_who_is_late(index: VectorIndex) -> None:
    await index.upsert([point(1, unit(1), seq=3)])
    await index.upsert([point(1, unit(0, 1), seq=3)], 1_764_000_000, mark=True)
    await index.upsert([point(1, unit(1), seq=3)], 1_763_999_999)
    assert await index.search([by_vector(unit(0, 1))]) == [[Hit(uid(1), 1.0)]]
    await index.fence_off(SEGMENTS, [uid(1)], 1_764_000_000)  # of the same erasure: it has been written anew
    assert await index.seqs(SEGMENTS, KEY) == {uid(1): 3}
    await index.upsert([point(1, unit(0, 0, 1), seq=4)], 1_764_000_000)
    assert await index.search([by_vector(unit(0, 0, 1))]) == [[Hit(uid(1), 1.0)]]
