"""Waiting for servers: backoff, limits, and one voice for many."""

import logging

import pytest

from eunoe.schemas.errors import Unavailable
from eunoe.streams.record import Revoked
from eunoe.workers.runner.backoff import FIRST_LOG_INTERVAL_S, Backoff, Outages

REDIS, MODEL = "Redis at r:1", "m at http://m"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Lease:
    """Pauses take no time but the clock's."""

    def __init__(self, clock: Clock, pauses: int = 10_000) -> None:
        self.clock, self.left, self.paused = clock, pauses, list[float]()

    @property
    def revoked(self) -> bool:
        return self.left <= 0

    async def pause(self, seconds: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise Revoked
        self.paused.append(seconds)
        self.clock.now += seconds


def away(server: str = REDIS) -> Unavailable:
    return Unavailable(f"{server}: refused", server)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock: Clock) -> Outages:
    return Outages(clock)


async def test_pauses_grow_up_to_a_bound_and_the_fault_comes_through_at_the_limit(clock: Clock, outages: Outages):
    lease = Lease(clock)
    with pytest.raises(Unavailable, match="refused"), outages.retrying(lease, Backoff(1, 2, 5), 20) as retry:  # noqa: PT012
        while True:
            await retry.wait(away())
    assert lease.paused == [1, 2, 4, 5, 5, 5]
    assert outages.waiting() == {}


async def test_a_hundred_that_wait_say_it_once_and_once_that_it_is_over(
    clock: Clock, outages: Outages, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    leases = [Lease(Clock()) for _ in range(100)]
    waiting = [outages.retrying(lease, Backoff(), 1e9) for lease in leases]
    retries = [one.__enter__() for one in waiting]
    for _ in range(5):
        for retry in retries:
            await retry.wait(away())
    assert outages.waiting() == {REDIS: 100}
    assert outages.waits == {REDIS: 100}
    assert [record.message for record in caplog.records] == [
        f"waiting for {REDIS}: 1 waiting, 0 s so far: {REDIS}: refused"
    ]
    clock.now += FIRST_LOG_INTERVAL_S + 1
    for retry in retries:
        await retry.wait(away())
    assert len(caplog.records) == 2
    assert "100 waiting, 11 s so far" in caplog.text
    for one in waiting:
        one.__exit__(None, None, None)
    assert outages.waiting() == {}
    assert [record.message for record in caplog.records][2:] == [f"{REDIS} answers again, after 11 s"]


async def test_a_server_that_comes_and_goes_is_told_less_and_less(
    clock: Clock, outages: Outages, caplog: pytest.LogCaptureFixture
):
    lease = Lease(Clock())
    for _ in range(3600):
        clock.now += 1
        with outages.retrying(lease, Backoff(), 1e9) as retry:
            await retry.wait(away(MODEL))
    assert outages.waits == {MODEL: 3600}
    assert 10 < len(caplog.records) < 30  # each time both: away, and back


async def test_an_outage_that_lasts_is_told_soon_after_a_long_one(
    clock: Clock, outages: Outages, caplog: pytest.LogCaptureFixture
):
    lease = Lease(clock)
    with outages.retrying(lease, Backoff(5, 1, 5), 1e9) as retry:
        while len(caplog.records) < 6:  # the next line would come after ten minutes
            await retry.wait(away())
    clock.now += 30
    caplog.clear()
    with outages.retrying(lease, Backoff(5, 1, 5), 1e9) as retry:
        for _ in range(4):
            await retry.wait(away())
    told = [f"waiting for {REDIS}: 1 waiting, 10 s so far: {REDIS}: refused", f"{REDIS} answers again, after 20 s"]
    assert [record.message for record in caplog.records] == told


async def test_servers_are_told_apart(clock: Clock, outages: Outages, caplog: pytest.LogCaptureFixture):
    lease = Lease(clock)
    with outages.retrying(lease, Backoff(1, 2, 60), 100) as retry:
        await retry.wait(away())
        await retry.wait(away(MODEL))
        assert outages.waiting() == {MODEL: 1}
    assert lease.paused == [1, 1]
    assert {name for name in (REDIS, MODEL) if f"waiting for {name}" in caplog.text} == {REDIS, MODEL}


async def test_who_pauses_for_a_reason_of_its_own_has_been_answered(clock: Clock, outages: Outages):
    """A stage that waits an hour for another stage may meet the same server's absence twice: that is not one hour."""
    lease = Lease(clock)
    with outages.retrying(lease, Backoff(), 10) as retry:
        await retry.wait(away())
        await retry.pause(3600)
        assert outages.waiting() == {}
        await retry.wait(away())
        assert outages.waiting() == {REDIS: 1}


async def test_a_rebalance_ends_the_waiting_without_a_word_that_it_is_over(
    clock: Clock, outages: Outages, caplog: pytest.LogCaptureFixture
):
    lease = Lease(clock, pauses=2)
    with pytest.raises(Revoked), outages.retrying(lease, Backoff(), 1e9) as retry:  # noqa: PT012
        while True:
            await retry.wait(away())
    assert outages.waiting() == {}
    assert "answers again" not in caplog.text
