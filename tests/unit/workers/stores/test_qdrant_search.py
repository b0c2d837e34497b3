"""What is asked of Qdrant until the best points of a search are certain."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.decisions import Collection
from eunoe.schemas.ports import Hit, Search
from eunoe.workers.stores.vectors.hits import best_hits
from eunoe.workers.stores.vectors.qdrant_search import (
    SPARE,
    SPARE_OF_LATER,
    Fetch,
    Scored,
    best_of,
    first_fetch,
    next_fetch,
)


def search(limit: int, before: int | None = None) -> Search:
    return Search(Collection.MEMORIES, "acme/c1", limit, dense=b"\0\0\0\0", born_before=before)


def answer_of_server(points: Sequence[Scored], asked: Search, fetch: Fetch) -> list[Scored]:
    """As the server answers: best raw scores first, the filter by age only where it is asked for."""
    before = asked.born_before
    there = [one for one in points if not fetch.by_age or before is None or (one.born or 0) < before]
    return sorted(there, key=lambda one: -one.score)[: fetch.limit]


def searched(points: Sequence[Scored], asked: Search) -> tuple[list[Hit], list[Fetch]]:
    """The hits that are found, and what was asked for them."""
    fetches: list[Fetch] = []
    found: list[Hit] = []
    fetch = first_fetch(asked)
    while fetch is not None:
        fetches.append(fetch)
        answer = answer_of_server(points, asked, fetch)
        found = best_of(asked, answer)
        fetch = next_fetch(asked, fetch, answer, found)
    return found, fetches


POINTS = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.3000001, 0.4, 0.9]), st.integers(1, 6)), max_size=120
).map(lambda rows: [Scored(f"{at:03}", score, born) for at, (score, born) in enumerate(rows)])


@given(points=POINTS, limit=st.integers(1, 5), before=st.none() | st.integers(0, 7))
def test_the_best_of_earlier_sessions_are_found_whatever_else_is_there(
    points: list[Scored], limit: int, before: int | None
) -> None:
    earlier = [(one.id, one.score) for one in points if before is None or (one.born or 0) < before]
    found, _ = searched(points, search(limit, before))
    assert found == best_hits(earlier, limit)


def test_the_server_filters_by_age_only_where_points_of_later_sessions_fill_its_answer() -> None:
    points = [Scored(f"{at:03}", 1 - at / 1000, 9 if at < 20 else 1) for at in range(100)]
    assert searched(points, search(5, 9))[1] == [Fetch(5 + SPARE + SPARE_OF_LATER)]
    assert searched(points[:25], search(5, 1))[1] == [Fetch(5 + SPARE + SPARE_OF_LATER)], "these were all"
    many = [one._replace(born=9) for one in points[:60]] + points[60:]
    found, fetches = searched(many, search(5, 9))
    assert [fetch.by_age for fetch in fetches] == [False, True]
    assert [hit.id for hit in found] == ["060", "061", "062", "063", "064"]


def test_more_is_fetched_where_equal_scores_reach_beyond_the_answer() -> None:
    points = [Scored(f"{at:03}", 0.5, 1) for at in range(100)]
    found, fetches = searched(points, search(5))
    assert [fetch.limit for fetch in fetches] == [5 + SPARE, 4 * (5 + SPARE), 16 * (5 + SPARE)]
    assert [hit.id for hit in found] == ["000", "001", "002", "003", "004"]


def test_a_search_that_can_find_nothing_asks_nothing() -> None:
    assert first_fetch(search(0)) is None
    assert first_fetch(Search(Collection.MEMORIES, "acme/c1", 5)) is None
