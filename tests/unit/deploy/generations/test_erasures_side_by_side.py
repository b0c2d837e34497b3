"""Conversations are erased at the same time while they are small: an eraser holds each of them whole."""

import asyncio

import pytest

from eunoe.deploy.generations.erase.side_by_side import SideBySide


async def in_work(sizes: list[int], max_sessions: int) -> tuple[list[int], list[int]]:
    """The most sessions that were in work at any time after each begin, and the sizes in the order of their begin."""
    bound, begun, now, most = SideBySide(max_sessions), list[int](), list[int](), list[int]()

    async def work(size: int) -> None:
        async with bound.entered(size):
            begun.append(size)
            now.append(size)
            most.append(sum(now))
            await asyncio.sleep(0)
            now.remove(size)

    async with asyncio.TaskGroup() as group:
        for size in sizes:
            group.create_task(work(size))
    assert bound._sessions == 0
    return most, begun


async def test_small_conversations_are_in_work_together_and_no_more_than_fit():
    most, begun = await in_work([3, 3, 3, 3, 0], 10)
    assert sorted(begun) == [0, 3, 3, 3, 3]
    assert max(most) == 9


@pytest.mark.parametrize("size", [10, 11, 5_000])
async def test_one_that_is_longer_is_in_work_alone(size: int):
    most, begun = await in_work([1, size, 1], 10)
    assert sorted(begun) == [1, 1, size]
    assert max(most) == size


async def test_a_conversation_that_fails_leaves_room_for_the_next():
    bound = SideBySide(10)
    with pytest.raises(OSError, match="gone"):
        async with bound.entered(10):
            raise OSError("gone")
    async with asyncio.timeout(10), bound.entered(10):
        pass
