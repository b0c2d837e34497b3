"""A cancelled task ends, also where a cancellation is lost."""

import asyncio

import pytest

from eunoe.streams.cancelling import cancelled, completed, first_ended


async def test_a_cancellation_that_is_lost_is_repeated() -> None:
    lost = 0

    async def loses_two() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost == 2:
                    raise
                lost += 1

    tasks = asyncio.create_task(loses_two()), asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await cancelled(*tasks, every_s=0.01)
    assert ([task.done() for task in tasks], lost) == ([True, True], 2)


async def test_what_a_cancelled_task_raised_is_raised() -> None:
    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="at its end"):
        await cancelled(task, asyncio.create_task(asyncio.sleep(60)))


async def test_the_first_end_ends_the_others() -> None:
    ended: list[str] = []

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the other one")

    await first_ended(asyncio.sleep(0), waits_for_ever())
    assert ended == ["the other one"]


async def test_what_the_first_one_raised_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("it broke")

    async with asyncio.timeout(10):
        with pytest.raises(ValueError, match="it broke"):
            await first_ended(asyncio.Event().wait(), fails())


async def test_a_wait_for_the_first_end_that_is_cancelled_leaves_no_task() -> None:
    parts = [asyncio.create_task(asyncio.Event().wait()) for _ in range(2)]
    waiting = asyncio.create_task(first_ended(*parts))
    await asyncio.sleep(0)
    await cancelled(waiting)
    assert [part.cancelled() for part in parts] == [True, True]


async def test_work_is_completed_although_its_task_is_cancelled() -> None:
    begun, may_end, done = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        begun.set()
        await may_end.wait()
        done.append(True)

    task = asyncio.create_task(completed(work()))
    await begun.wait()
    task.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]
