import asyncio

import pytest

from eunoe.workers.models.endpoint.limit import InFlightLimit


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Caller:
    """Holds a place until it is let go."""

    def __init__(self, limit: InFlightLimit, *, urgent: bool = False) -> None:
        self.inside = False
        self._go = asyncio.Event()
        self.task = asyncio.create_task(self._run(limit, urgent))

    async def _run(self, limit: InFlightLimit, urgent: bool) -> None:
        async with limit.slot(urgent=urgent):
            self.inside = True
            await self._go.wait()

    async def leave(self) -> None:
        self._go.set()
        await self.task


async def test_bulk_work_leaves_the_reserved_places_to_urgent_calls():
    limit = InFlightLimit(4, 2)
    bulk = [Caller(limit) for _ in range(5)]
    await settle()
    assert [caller.inside for caller in bulk] == [True, True, False, False, False]
    urgent = [Caller(limit, urgent=True) for _ in range(2)]
    await settle()
    assert all(caller.inside for caller in urgent)
    assert limit.held == limit.peak == 4
    for caller in (*bulk, *urgent):
        await caller.leave()
    assert limit.held == 0


async def test_a_waiting_urgent_call_goes_before_bulk_calls_that_waited_longer():
    limit = InFlightLimit(1, 0)
    first = Caller(limit)
    await settle()
    bulk, urgent = Caller(limit), Caller(limit, urgent=True)
    await settle()
    await first.leave()
    await settle()
    assert (urgent.inside, bulk.inside) == (True, False)
    await urgent.leave()
    await bulk.leave()


async def test_a_cancelled_caller_gives_its_place_to_the_next():
    limit = InFlightLimit(1, 0)
    first = Caller(limit)
    await settle()
    second, third = Caller(limit), Caller(limit)
    await settle()
    await first.leave()  # the place is the second's now, who is cancelled before it runs on
    second.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second.task
    await settle()
    assert third.inside
    await third.leave()
    assert limit.held == 0


async def test_a_cancelled_waiter_is_passed_over():
    limit = InFlightLimit(1, 0)
    first, second, third = Caller(limit), Caller(limit), Caller(limit)
    await settle()
    second.task.cancel()
    await settle()
    await first.leave()
    await settle()
    assert third.inside
    await third.leave()
    assert limit.held == 0


@pytest.mark.parametrize(("total", "reserved"), [(0, 0), (4, 4), (4, -1)])
def test_a_limit_that_lets_nobody_in_is_refused(total: int, reserved: int):
    with pytest.raises(ValueError, match="cannot keep"):
        InFlightLimit(total, reserved)
