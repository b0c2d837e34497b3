"""Hashes that are written piece by piece beside their places; a script then moves them all there at once.

One command with all of a long conversation would hold Redis, and with it all other conversations, for as long as it
takes to read and write them.

A set of the conversation has the names of all that is being written: erasures find it, even of a killed writer.
Each piece is refused where the conversation is not as the writer read it: so what is written after an erasure was read
after it, too.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from eunoe.workers.stores.redis.connection import RedisConnection, Script, as_text

T = TypeVar("T")
Word = str | bytes

_STAGE = Script.load("stage")

STAGED_MS: Final = 600_000
"""Time to live of hashes that are not in their places yet: a process that is killed leaves nothing for long."""
MAX_FIELDS: Final = 500
"""Most fields that one command writes."""
_BYTES: Final = 2**20
"""Bytes at which a command takes no further field."""
_PIECES: Final = 8
"""Commands that are sent together, which saves round trips."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Writes state of one conversation beside its place."""

    redis: RedisConnection
    listed: str
    """The set of the names of all that is beside its place in this conversation."""
    fence: str
    """The key that shows whether the conversation is as it was read."""
    field: str
    """The field of ``fence`` that is compared; '' where it is a text."""
    expected: str
    """The text that it had when the conversation was read; '' for none."""

    async def write(self, hashes: Iterable[tuple[str, Iterable[tuple[Word, Word]]]]) -> bool:
        """Write hashes, each by its staged name with its fields and values, which are read as they are written.

        They go after `STAGED_MS`, unless a script moves them and makes them stay. Returns whether the conversation is
        still as it was read; else what was written is to be dropped. Raises `Unavailable`.
        """
        head: list[str | int | bytes] = [STAGED_MS, self.field, self.expected]
        pieces = ((name, words) for name, rows in hashes for words in _in_pieces(rows))
        while some := list(islice(pieces, _PIECES)):
            calls = (self.redis.run(_STAGE, [name, self.listed, self.fence], [*head, *words]) for name, words in some)
            if not all(await all_ended(calls)):
                return False
        return True

    async def drop(self, names: Collection[str]) -> None:
        """Delete staged hashes that are not moved to their places. Raises `Unavailable`."""
        if names:
            await self.redis.command("UNLINK", *names)
            await self.redis.command("SREM", self.listed, *names)

    async def left(self) -> set[str]:
        """The names of all that is beside its place, also of other processes. Raises `Unavailable`."""
        return {as_text(name) for name in await self.redis.command("SMEMBERS", self.listed)}


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
