"""Decides for which points of a conversation Qdrant is asked, until the best of a search are certain.

A filter by age makes the server read the session of every point: with 100,000 of a conversation an exact search takes
four times as long. Points of later sessions are rare, so the first answer names the session of each hit instead, and
the server filters only where too few hits are left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from eunoe.schemas.ports import Hit, Search
from eunoe.workers.stores.vectors.hits import best_hits, rounded

SPARE: Final = 8
"""Hits fetched beyond the limit, to detect ties at the cut."""
SPARE_OF_LATER: Final = 16
"""As many more where points of later sessions may be among the hits: most sessions leave fewer."""
MAX_FETCHED: Final = 100_000
"""Hits fetched at most; among more equal scores the server's order decides."""


class Scored(NamedTuple):
    """A point in an answer of Qdrant."""

    id: str
    score: float
    born: int | None
    """Its session, where it was asked for."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """One question to the server."""

    limit: int
    by_age: bool = False
    """Whether the server looks only at points of earlier sessions; otherwise it names the sessions."""


def first_fetch(search: Search) -> Fetch | None:
    """The first question; `None` for a search that can find nothing."""
    if search.limit <= 0 or (search.dense is None and not (search.sparse and search.sparse.indices)):
        return None
    return Fetch(search.limit + SPARE + (0 if search.born_before is None else SPARE_OF_LATER))


def best_of(search: Search, answer: Iterable[Scored]) -> list[Hit]:
    """The best hits of a search among those of an answer, at most as many as it wants."""
    before = search.born_before
    if before is None:
        return best_hits(((one.id, one.score) for one in answer), search.limit)
    return best_hits(((one.id, one.score) for one in answer if not _is_later(one, before)), search.limit)


def next_fetch(search: Search, fetch: Fetch, answer: Sequence[Scored], found: Sequence[Hit]) -> Fetch | None:
    """The question after the answer to ``fetch``, best score first, among which ``found`` are the best.

    Returns `None` where points that the answer lacks cannot be among them.
    """
    if len(answer) < fetch.limit:
        return None
    if len(found) == search.limit and found[-1].score > rounded(answer[-1].score):
        return None
    before = search.born_before
    if before is not None and any(_is_later(one, before) for one in answer):
        return Fetch(fetch.limit, by_age=True)
    if fetch.limit >= MAX_FETCHED:
        return None
    return Fetch(min(fetch.limit * 4, MAX_FETCHED), fetch.by_age)


def _is_later(one: Scored, before: int) -> bool:
    return one.born is not None and one.born >= before
