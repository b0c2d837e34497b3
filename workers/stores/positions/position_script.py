"""The script that records handled positions; calls that come together share one run of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from eunoe.schemas.position_ports import Handled, Witness
from eunoe.workers.stores.redis.command_pipeline import CommandArgs, passing_on_faults
from eunoe.workers.stores.redis.connection import RedisConnection, Script, as_text
from eunoe.workers.stores.redis.keys import Keys

_REMEMBER = Script.load("remember")
_NOTHING = Handled()


@dataclass(frozen=True, slots=True)
class PositionWrite:
    """A handled position to be recorded, and what must be shown before."""

    field: str = ""
    """The partition, as a field of the key; '': nothing is recorded, and only witnesses are looked at."""
    owner: str = ""
    position: int = 0
    expected: Handled = _NOTHING
    witnesses: Sequence[Witness] = ()


@dataclass(frozen=True, slots=True)
class PositionFound:
    """Findings of the server before a write."""

    before: Handled
    owned: bool
    missing: tuple[Witness, ...]
    """Witnesses of which it shows less."""


class PositionScript:
    """Runs the script once for all writes of one key that come in the same turn of the event loop.

    A stage acknowledges many partitions at once: their positions stand under one key.
    """

    def __init__(self, redis: RedisConnection, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._waiting: dict[str, list[tuple[PositionWrite, asyncio.Future[PositionFound]]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, key: str, write: PositionWrite) -> PositionFound:
        """Write a position under ``key``, unless less is shown than expected. Raises `Unavailable`."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[PositionFound] = loop.create_future()
        together = self._waiting.setdefault(key, [])
        together.append((write, found))
        if len(together) == 1:
            loop.call_soon(self._start, key)
        return await found

    def command(self, key: str, write: PositionWrite) -> CommandArgs:
        """The command that writes one position, with the script's source; `run` says what it returns."""
        keys, words = self._words(key, [write])
        return ("EVAL", _REMEMBER.source, len(keys), *keys, *words)

    def _start(self, key: str) -> None:
        task = asyncio.ensure_future(self._run(key, self._waiting.pop(key)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, key: str, together: list[tuple[PositionWrite, "asyncio.Future[PositionFound]"]]) -> None:
        with passing_on_faults(found for _, found in together):
            answers = await self._redis.run(_REMEMBER, *self._words(key, [write for write, _ in together]))
            for (write, found), answer in zip(together, answers, strict=True):
                if not found.done():
                    found.set_result(_read(write, [as_text(word) for word in answer]))

    def _words(self, key: str, writes: Sequence[PositionWrite]) -> tuple[list[str], list[str | int | bytes]]:
        keys: list[str] = [key]
        words: list[str | int | bytes] = []
        for write in writes:
            expected = write.expected
            words += (write.field, write.owner, write.position, expected.position, expected.writes)
            words.append(len(write.witnesses))
            for witness in write.witnesses:
                keys += [self._keys.ledger(witness.scope), self._keys.parked(witness.scope, witness.number)]
                words += [witness.applied, witness.lates, int(witness.sent), witness.number, witness.slot or ""]
        return keys, words


def _read(write: PositionWrite, answer: Sequence[str]) -> PositionFound:
    position, writes, owned, *places = answer
    missing = tuple(write.witnesses[int(place) - 1] for place in places)
    return PositionFound(Handled(int(position), int(writes)), owned == "1", missing)
