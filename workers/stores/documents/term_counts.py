"""Document frequencies: one small document per term of a conversation."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from eunoe.schemas.base import Value
from eunoe.schemas.decisions import Put, Write
from eunoe.schemas.documents import read_document
from eunoe.schemas.ports import StateStore


def frequency_writes(
    table: str, form: type[Value], listed: Iterable[list[str]], known: Mapping[str, int]
) -> list[Write]:
    """The writes that count new texts.

    ``listed`` holds the terms of each text, ``known`` the counts before. ``form`` has one field, the count.
    """
    fresh = Counter(term for words in listed for term in set(words))
    return [Put(table, term, _written(form, known.get(term, 0) + count)) for term, count in sorted(fresh.items())]


async def read_numbers(
    store: StateStore, place: tuple[str, str, str], form: type[Value], wanted: set[str]
) -> dict[str, int]:
    """Term → count, for the wanted terms that have one. ``place``: stage, conversation key, table.

    Raises `Unavailable`.
    """
    if not wanted:
        return {}
    ordered = sorted(wanted)
    rows = await store.fetch(*place, ordered)
    return {
        term: read_document(form, row, place[1], partial(_number, form))
        for term, row in zip(ordered, rows, strict=True)
        if row is not None
    }


# cached: the same small counts recur
@lru_cache(maxsize=8_192)
def _written(form: type[Value], number: int) -> str:
    (name,) = form.model_fields
    return form(**{name: number}).model_dump_json()


@lru_cache(maxsize=8_192)
def _number(form: type[Value], document: str) -> int:
    (number,) = form.from_json(document).model_dump().values()
    return int(number)
