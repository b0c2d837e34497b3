"""`LogPositions`: idle timers and promotions, by partition."""

from datetime import UTC, datetime, timedelta

from eunoe.schemas.decisions import Timer
from eunoe.schemas.identity import conversation_key
from eunoe.schemas.ports import ActiveConversation, ActivityList
from eunoe.schemas.position_ports import DueTimer, LogPositions
from eunoe.workers.stores.positions.redis_log_positions import RedisLogPositions
from eunoe.workers.stores.state.memory_store import MemoryLogPositions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def timer(seconds: float, utterance: str | None = "u1") -> Timer:
    return Timer(after_utterance_id=utterance, since=NOON + timedelta(seconds=seconds))


async def due_keys(
    log_positions: LogPositions, seconds: float = 3600, limit: int = 100, partition: int = 0
) -> list[str]:
    return [due.key for due in await log_positions.due(partition, NOON + timedelta(seconds=seconds), limit)]


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


async def test_the_time_by_which_a_conversation_is_listed(
    log_positions: MemoryLogPositions | RedisLogPositions,
) -> None:
    exact = NOON + timedelta(microseconds=123_457)
    await log_positions.schedule(0, "acme/c1", Timer(after_utterance_id=None, since=exact))
    assert await log_positions.last_active("acme/c1") == exact
    assert await log_positions.last_active("acme/c2") is None


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


async def test_a_timer_of_an_earlier_decision_changes_nothing(log_positions: LogPositions) -> None:
    def numbered(number: int, utterance: str | None, seconds: float = 0) -> Timer:
        return timer(seconds, utterance).model_copy(update={"number": number})

    big = 3 * 2**60
    await log_positions.schedule(0, "a/1", numbered(big + 1, "u2"))
    await log_positions.schedule(0, "a/1", numbered(big, None))
    await log_positions.schedule(0, "a/1", numbered(99, "u1", 7))
    now = NOON + timedelta(hours=1)
    assert await log_positions.due(0, now, 9) == [DueTimer("a/1", numbered(big + 1, "u2"))], "a zombie cancels nothing"
    await log_positions.schedule(0, "a/1", numbered(big + 2, None))
    await log_positions.schedule(0, "a/1", numbered(big + 1, "u2"))
    assert await log_positions.due(0, now, 9) == [], "and sets nothing again"
    await log_positions.schedule(0, "a/1", numbered(big + 3, "u3"))
    assert await log_positions.due(0, now, 9) == [DueTimer("a/1", numbered(big + 3, "u3"))]


async def test_conversations_are_listed_by_their_last_activity(
    log_positions: LogPositions, activity: ActivityList
) -> None:
    for number in range(7):
        await log_positions.schedule(0, conversation_key("acme", f"c/{number % 5}"), timer(number // 2))
    await log_positions.schedule(1, conversation_key("acme", "c/0"), timer(0, None))  # late: goes back to nothing
    await log_positions.schedule(0, conversation_key("acme/c", "other"), timer(9))
    found = await activity.active("acme", 10)
    seconds = [round((one.active - NOON).total_seconds()) for one in found]
    assert [one.conversation_id for one in found] == ["c/1", "c/4", "c/0", "c/3", "c/2"]
    assert seconds == [3, 2, 2, 1, 1]
    assert await activity.active("nobody", 10) == []


async def test_a_list_of_conversations_is_read_page_by_page(
    log_positions: LogPositions, activity: ActivityList
) -> None:
    for number in range(11):
        await log_positions.schedule(0, conversation_key("acme", f"c{number}"), timer(number // 4))
    whole = await activity.active("acme", 100)
    assert len(whole) == 11
    found: list[ActiveConversation] = []
    while page := await activity.active("acme", 3, found[-1] if found else None):
        found += page
    assert found == whole
