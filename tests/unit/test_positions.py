"""Positions of the log: an absent store delays them, and loses none."""

import asyncio
from dataclasses import dataclass, field

import pytest

from eunoe.deploy.process.positions import remember_position, start_position
from eunoe.schemas.errors import Unavailable
from eunoe.streams.position import position
from eunoe.streams.record import Revoked
from eunoe.workers.runner.backoff import Outages
from eunoe.workers.stores.memory import MemoryLogPositions


@dataclass
class Shaky(MemoryLogPositions):
    """Away for the first ``away`` requests."""

    away: int

    def __post_init__(self) -> None:
        super().__init__()

    def _answer(self) -> None:
        if self.away > 0:
            self.away -= 1
            raise Unavailable("Redis at nowhere does not answer")

    async def position(self, partition: int) -> int | None:
        self._answer()
        return await super().position(partition)

    async def remember(self, partition: int, position: int) -> None:
        self._answer()
        await super().remember(partition, position)


@dataclass
class Brief:
    """A lease whose pauses take no time; revoked after ``pauses`` of them."""

    pauses: int
    revoked: bool = field(default=False, init=False)

    async def pause(self, seconds: float) -> None:
        self.pauses -= 1
        await asyncio.sleep(0)
        if self.pauses < 0:
            self.revoked = True
            raise Revoked


async def test_a_position_is_remembered_once_the_store_is_back() -> None:
    log_positions = Shaky(away=3)
    await remember_position(log_positions, 1, Outages(), 600)("conversations", 2, 7, Brief(10))
    assert await log_positions.position(2) == position(1, 7)


async def test_nothing_is_remembered_when_a_rebalance_comes_first() -> None:
    log_positions = Shaky(away=5)
    with pytest.raises(Revoked):
        await remember_position(log_positions, 1, Outages(), 600)("conversations", 2, 7, Brief(1))
    log_positions.away = 0
    assert await log_positions.position(2) is None


async def test_a_store_that_stays_away_ends_the_wait() -> None:
    with pytest.raises(Unavailable):
        await remember_position(Shaky(away=10**6), 1, Outages(), 0.0)("conversations", 2, 7, Brief(10**6))


async def test_a_partition_starts_where_it_was_handled_even_if_the_store_was_away() -> None:
    log_positions = Shaky(away=1)
    await MemoryLogPositions.remember(log_positions, 2, position(1, 7))
    start = start_position(log_positions, 1, Outages())
    assert await start("conversations", 2, 20) == 8
    assert await start("conversations", 2, 8) is None
