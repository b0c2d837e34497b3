"""Produces the traffic of a soak test: conversations side by side, each at random times."""

import asyncio
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field

from eunoe.deploy.evaluate.soak.plan import SoakPlan
from eunoe.deploy.evaluate.soak.samples import SoakRecord, Timed
from eunoe.deploy.evaluate.soak.talk import SPEAKERS, question, utterance
from eunoe.schemas.errors import EunoeError
from eunoe.streams.client import Connection, MemoryClient

ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that was ended, and is to become memory."""

    key: str
    number: int
    """Its number in the conversation, from 1."""
    at_s: float
    """The second of the run at which it ended."""


@dataclass(slots=True)
class Traffic:
    """The conversations of a run."""

    plan: SoakPlan
    connection: Connection
    record: SoakRecord
    name: str
    """Begin of the conversations' ids, new for each run."""
    sent: int = 0
    ended: list[EndedSession] = field(default_factory=list)
    begun: float = 0.0

    @property
    def now_s(self) -> float:
        """The second of the run."""
        return time.monotonic() - self.begun

    async def run(self) -> None:
        """Talk until the time is over; every session that was begun is ended."""
        self.begun = time.monotonic()
        async with asyncio.TaskGroup() as talks:
            for place in range(self.plan.conversations):
                talks.create_task(self._talk(place))

    async def _talk(self, place: int) -> None:
        chance = random.Random(f"{self.plan.seed}/{place}")  # noqa: S311 - not for secrets
        await self._pause(chance)  # not all at once
        generation = 0
        while not self._is_over:
            name = f"{self.name}-{place}-{generation}"
            memory = MemoryClient(self.connection, conversation_id=name)
            for number in range(1, self.plan.sessions + 1):
                if not self._is_over:
                    await self._session(memory, number, chance)
            generation += 1

    @property
    def _is_over(self) -> bool:
        return self.now_s >= self.plan.minutes * 60

    async def _pause(self, chance: random.Random) -> None:
        left_s = self.plan.minutes * 60 - self.now_s
        await asyncio.sleep(max(0.0, min(left_s, chance.expovariate(self.plan.rate / self.plan.conversations))))

    async def _session(self, memory: MemoryClient, number: int, chance: random.Random) -> None:
        said = 0
        for turn in range(max(1, round(chance.gauss(self.plan.turns, self.plan.turns / 4)))):
            if turn and self._is_over:
                break
            said += await self._say(memory, chance, first=not said)
            await self._pause(chance)
        if said and await self._tried(memory.end_session()):
            self.ended.append(EndedSession(memory.key, number, self.now_s))

    async def _say(self, memory: MemoryClient, chance: random.Random, *, first: bool) -> bool:
        """One utterance or ask; returns whether it is part of the session."""
        self.sent += 1
        speaker = chance.choice(SPEAKERS)
        if first or chance.random() >= self.plan.asks:
            text = utterance(chance, long=chance.random() < self.plan.long)
            return await self._tried(memory.utter(text, speaker=speaker))
        recorded = chance.random() < 0.5
        begun = time.monotonic()
        asking = memory.ask(question(chance), speaker=speaker, record=recorded, timeout=ASK_TIMEOUT_S)
        if await self._tried(asking):
            self.record.asks.append(Timed(self.now_s, time.monotonic() - begun))
        return recorded

    async def _tried(self, work: Awaitable[object]) -> bool:
        try:
            await work
        except EunoeError as fault:
            self.record.failures.append(f"{self.now_s:.0f} s: {fault!s:.200}")
            return False
        return True
