"""`LogPositions`: handled positions and idle timers, by partition."""

import asyncio
from datetime import UTC, datetime, timedelta

from eunoe.schemas.decisions import Timer
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import DueTimer, LogPositions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def timer(seconds: float, utterance: str | None = "u1") -> Timer:
    return Timer(after_utterance_id=utterance, since=NOON + timedelta(seconds=seconds))


async def due_keys(
    log_positions: LogPositions, seconds: float = 3600, limit: int = 100, partition: int = 0
) -> list[str]:
    return [due.key for due in await log_positions.due(partition, NOON + timedelta(seconds=seconds), limit)]


async def test_no_position_at_first(log_positions: LogPositions) -> None:
    assert await log_positions.position(0) is None


async def test_a_position_never_goes_back(log_positions: LogPositions) -> None:
    big = 3 * 2**60
    for position in (0, 9, 10, 5, big + 1, big, 99):
        await log_positions.remember(1, position)
    await log_positions.remember(11, 0)
    assert [await log_positions.position(partition) for partition in (1, 11, 0)] == [big + 1, 0, None]


async def test_of_many_positions_the_last_stays(log_positions: LogPositions) -> None:
    await asyncio.gather(*(log_positions.remember(0, (number * 37) % 101) for number in range(101)))
    assert await log_positions.position(0) == 100


async def test_a_timer_comes_back_as_it_was(log_positions: LogPositions) -> None:
    exact = Timer(after_utterance_id="지민 {u} %7B", since=NOON + timedelta(microseconds=123_457))
    await log_positions.schedule(0, "acme/c1", exact)
    assert await log_positions.due(0, exact.since, 1) == [DueTimer("acme/c1", exact)]
    assert await log_positions.due(0, exact.since - timedelta(microseconds=1), 1) == []


async def test_timers_are_set_moved_and_cancelled(log_positions: LogPositions) -> None:
    await log_positions.schedule(0, "a/1", timer(0))
    await log_positions.schedule(0, "a/2", timer(1))
    await log_positions.schedule(0, "a/1", timer(2, "u2"))
    assert await log_positions.due(0, NOON + timedelta(seconds=1), 9) == [DueTimer("a/2", timer(1))]
    assert await due_keys(log_positions) == ["a/2", "a/1"]
    await log_positions.schedule(0, "a/2", timer(3, None))
    await log_positions.schedule(0, "a/3", timer(3, None))
    assert await log_positions.due(0, NOON + timedelta(hours=1), 9) == [DueTimer("a/1", timer(2, "u2"))]


async def test_the_oldest_come_first_equal_ones_by_key(log_positions: LogPositions) -> None:
    for key, seconds in (("a/z", 5), ("a/b", 1), ("b/a", 1), ("a/a", 1), ("a/y", -5)):
        await log_positions.schedule(0, key, timer(seconds))
    assert await due_keys(log_positions) == ["a/y", "a/a", "a/b", "b/a", "a/z"]
    assert await due_keys(log_positions, limit=2) == ["a/y", "a/a"]
    assert await due_keys(log_positions, limit=0) == []
    assert await due_keys(log_positions, seconds=1) == ["a/y", "a/a", "a/b", "b/a"]
    assert await due_keys(log_positions, seconds=-6) == []


async def test_partitions_do_not_see_each_other(log_positions: LogPositions) -> None:
    for partition in (0, 1, 11):
        await log_positions.schedule(partition, conversation_key(f"t{partition}", "{x}"), timer(0))
    await log_positions.schedule(1, conversation_key("t0", "{x}"), timer(0, None))
    assert await due_keys(log_positions, partition=0) == [conversation_key("t0", "{x}")]
    assert await due_keys(log_positions, partition=11) == [conversation_key("t11", "{x}")]
    assert await due_keys(log_positions, partition=2) == []


async def test_promotions_count_from_their_position_on(log_positions: LogPositions) -> None:
    assert await log_positions.answering(3) is None
    await log_positions.promote(3, 2**40 + 7, "v3")
    await log_positions.promote(3, 9, "v2")
    await log_positions.promote(3, 9, "v2")
    assert [await log_positions.answering(3, at) for at in (9, 10, 2**40 + 7, 2**40 + 8)] == [None, "v2", "v2", "v3"]
    assert await log_positions.answering(3) == "v3"
    assert await log_positions.answering(4) is None


async def test_a_promotion_that_nobody_announced_is_told_apart(log_positions: LogPositions) -> None:
    assert not await log_positions.was_announced(3, 9, "v2", None)
    assert not await log_positions.was_announced(3, 9, "v2", "guessed")
