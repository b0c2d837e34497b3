"""Snapshots of erased conversations that come into the cold store after the erasure has looked there.

A write cannot be called back once an object store has it, and the process that would delete it may be killed. So an
erasure leaves a note, by which the workers look once more when no such write can be under way: those of any generation.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from eunoe.workers.stores.cold.conversations import ColdConversations
from eunoe.workers.stores.redis.connection import RedisConnection, as_text
from eunoe.workers.stores.redis.keys import Keys

LATE_S: Final = 900.0
"""Seconds after an erasure until the second look: a freezer's announcement, its write, and what clocks may differ."""
_AT_ONCE: Final = 100
"""Notes that one sweep takes up."""


@dataclass(frozen=True, slots=True)
class ErasedSnapshots:
    """The notes of a generation, in Redis. Every method raises `Unavailable`; times are seconds since 1970."""

    redis: RedisConnection
    keys: Keys
    cold: ColdConversations

    async def clean(self, key: str, now: float) -> None:
        """Delete the snapshots of a conversation that was erased, now and once more after `LATE_S`."""
        await self.note(key, now + LATE_S)  # first: whoever is killed in between leaves it
        await self.cold.clean(key)

    async def note(self, key: str, due: float) -> None:
        """Have the snapshots that Redis does not name deleted by the first sweep after ``due``."""
        if self.cold.has_store or await self.redis.command("EXISTS", self.keys.cold_mark()):
            # each note is another one: who has done the first does not remove the second
            await self.redis.command("ZADD", self.keys.to_clean(), f"{due:.3f}", f"{key} {secrets.token_hex(4)}")

    async def sweep(self, now: float) -> None:
        """Do what the notes ask for; several processes may do so at once."""
        found = await self.redis.command(
            "ZRANGEBYSCORE", self.keys.to_clean(), "-inf", f"{now:.3f}", "LIMIT", 0, _AT_ONCE
        )
        for note in map(as_text, found):
            await self.cold.clean(note.partition(" ")[0])
            await self.redis.command("ZREM", self.keys.to_clean(), note)
