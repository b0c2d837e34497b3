"""Observes sessions becoming durable, by polling the ledgers of the last stages in Redis."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eunoe.schemas.decisions import Scope
from eunoe.schemas.errors import Unavailable
from eunoe.workers.registry import STAGES
from eunoe.workers.stage import ApplyOrder
from eunoe.workers.stores.redis.connection import RedisClient
from eunoe.workers.stores.redis.keys import Keys

LAST_STAGES = tuple(spec.name for spec in STAGES.values() if spec.order is ApplyOrder.SESSION and not spec.emits)
"""The stages whose output no stage consumes; all others have decided a session before them."""


@dataclass(slots=True)
class Watch:
    """The times at which the sessions of conversations became durable at every last stage."""

    redis: RedisClient
    names: Keys
    conversations: Sequence[str]
    """Keys."""
    poll_s: float = 0.1
    durable: dict[tuple[str, int], float] = field(default_factory=dict)
    """(conversation, session) → seconds since the epoch, accurate to ``poll_s``."""
    commands: int = 0
    """Redis commands of the watch itself."""
    _reached: dict[str, int] = field(default_factory=dict)

    async def until(
        self, sessions: int, advance: Callable[[int], None] = lambda _done: None, stuck_s: float = 60.0
    ) -> None:
        """Wait until session ``sessions`` of every conversation is durable.

        ``advance`` is called with the number of durable sessions. Raises `Unavailable` after ``stuck_s`` seconds
        without progress.
        """
        since = time.monotonic()
        while left := [key for key in self.conversations if self._reached.get(key, 0) < sessions]:
            if await self.look(left):
                since = time.monotonic()
                advance(len(self.durable))
            elif time.monotonic() - since > stuck_s:
                raise Unavailable(
                    f"no progress for {stuck_s:.0f} s: {len(self.durable)} sessions are durable,"
                    f" {len(left)} conversations are unfinished; {left[0]} is at {await self._stages(left[0])}"
                )
            await asyncio.sleep(self.poll_s)

    async def _stages(self, key: str) -> str:
        """The number of the newest event that each stage has applied, as text."""
        applied = {stage: await self.redis.hget(self.names.ledger(Scope(stage, key)), "applied") for stage in STAGES}
        return ", ".join(f"{stage} {int(value or 0)}" for stage, value in applied.items())

    async def look(self, keys: Sequence[str] = ()) -> bool:
        """Poll once, all conversations or only ``keys``; returns whether there was progress."""
        keys = keys or self.conversations
        async with self.redis.pipeline(transaction=False) as asking:
            for key in keys:
                for stage in LAST_STAGES:
                    asking.hget(self.names.ledger(Scope(stage, key)), "applied")
            found = await asking.execute()
        self.commands += len(found)
        now, before = time.time(), len(self.durable)
        width = len(LAST_STAGES)
        for place, key in enumerate(keys):
            applied = min(int(value or 0) for value in found[place * width : (place + 1) * width])
            self.durable.update(((key, number), now) for number in range(self._reached.get(key, 0) + 1, applied + 1))
            self._reached[key] = applied
        return len(self.durable) > before
