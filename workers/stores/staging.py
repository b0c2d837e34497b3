"""Hashes that are written piece by piece beside their places; a script then moves them all there at once.

One command with all of a long conversation would hold Redis, and with it all other conversations, for as long as it
takes to read and write them.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from eunoe.workers.stores.connection import RedisConnection, Script

T = TypeVar("T")
Word = str | bytes

_STAGE = Script.load("stage")

STAGED_MS: Final = 600_000
"""Time to live of hashes that are not in their places yet: a process that is killed meanwhile leaves nothing."""
MAX_FIELDS: Final = 500
"""Most fields that one command writes."""
_BYTES: Final = 2**20
"""Bytes at which a command takes no further field."""
_PIECES: Final = 8
"""Commands that are sent together, which saves round trips."""


async def write_staged(redis: RedisConnection, hashes: Iterable[tuple[str, Iterable[tuple[Word, Word]]]]) -> None:
    """Write hashes, each by its staged name with its fields and values, which are read as they are written.

    They go after `STAGED_MS`, unless a script moves them and makes them stay. Raises `Unavailable`.
    """
    pieces = ((name, words) for name, rows in hashes for words in _in_pieces(rows))
    while some := list(islice(pieces, _PIECES)):
        await all_ended(redis.run(_STAGE, [name], [STAGED_MS, *words]) for name, words in some)


async def all_ended(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of calls, which are awaited to their ends; then raises the fault of the first that failed."""
    found = []
    for one in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(one, BaseException):
            raise one
        found.append(one)
    return found


def _in_pieces(rows: Iterable[tuple[Word, Word]]) -> Iterator[list[Word]]:
    """Fields and values alternating, in lists of bounded size."""
    words: list[Word] = []
    size = 0
    for field, value in rows:
        words += (field, value)
        size += len(field) + len(value)
        if len(words) >= 2 * MAX_FIELDS or size >= _BYTES:
            yield words
            words, size = [], 0
    if words:
        yield words
