"""How long a consumer rests between two fetches, and what ends a rest."""

import asyncio
import threading
import time
from typing import Any

from aiokafka import TopicPartition
from aiokafka.protocol.fetch import FetchRequest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.deploy.local.tansu.pacing import MAX_DELAY_S, MAX_READ_MS, READ_MS, FetchWait, Pacing, delay_s

SECONDS = st.floats(0, 10)
LONG_S = 60.0


@given(SECONDS, st.booleans(), st.booleans())
def test_who_asks_a_broker_that_waits_never_rests(loop_lag_s: float, interactive: bool, notified: bool):
    assert delay_s(0.0, loop_lag_s, interactive=interactive, notified=notified) == 0.0


@given(st.floats(0.001, 1), SECONDS, SECONDS, st.booleans(), st.booleans())
def test_the_later_the_process_the_longer_the_rest_up_to_a_bound(
    least_s: float, loop_lag_s: float, later_s: float, interactive: bool, notified: bool
):
    soon, late = sorted((loop_lag_s, later_s))
    first = delay_s(least_s, soon, interactive=interactive, notified=notified)
    second = delay_s(least_s, late, interactive=interactive, notified=notified)
    assert min(soon, MAX_DELAY_S) <= first <= second <= max(5 * least_s, MAX_DELAY_S)


@given(st.floats(0.001, 1), SECONDS)
def test_a_ring_shortens_a_rest_and_hurry_too(least_s: float, loop_lag_s: float):
    notified, interactive, other = (
        delay_s(least_s, loop_lag_s, interactive=interactive, notified=notified)
        for interactive, notified in ((False, True), (True, False), (False, False))
    )
    assert notified <= interactive <= other
    assert interactive >= least_s


class Fetched:
    """A consumer of one partition, of which only the fetches are there.

    The last fetch told of ``end`` records. One brings something where it may take ``reads_ms``, and else takes all
    the time that it has; with ``reads_ms`` None it brings nothing and answers at once.
    """

    def __init__(self, end: int | None = None, reads_ms: int | None = 0) -> None:
        self._fetcher: Any = self
        self._records: dict[TopicPartition, object] = {}
        self.highwater = end
        self.reads_ms = reads_ms
        self.asked: list[tuple[int, int]] = []
        self.at: list[float] = []

    def state_value(self, place: TopicPartition) -> "Fetched":
        return self

    async def _proc_fetch_request(self, assignment: object, node: int, request: FetchRequest) -> bool:
        ((_, ((_, offset, _),)),) = request.topics
        self.asked.append((offset, request._max_wait_ms))
        self.at.append(time.monotonic())
        self._records.clear()
        if self.reads_ms is None:
            return False
        if self.reads_ms > request._max_wait_ms:
            await asyncio.sleep(request._max_wait_ms / 1000 + 0.001)
            return False
        if self.highwater is None or offset < self.highwater:
            self._records[TopicPartition("t", 0)] = object()
        return True

    async def fetch(self, offset: int) -> bool:
        request = FetchRequest(1, 1, 1, 0, [("t", [(0, offset, 1)])])
        found: bool = await self._fetcher._proc_fetch_request(self, 0, request)
        return found


async def test_between_two_fetches_lies_a_rest_and_what_they_find_comes_back():
    consumer = Fetched()
    Pacing(0.02).attach(consumer)
    assert [await consumer.fetch(1), await consumer.fetch(2)] == [True, True]
    assert consumer.asked == [(1, 1), (2, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_who_is_behind_does_not_rest_and_gives_the_broker_time_to_read():
    consumer = Fetched(end=7)
    Pacing(LONG_S, lambda: LONG_S).attach(consumer)
    async with asyncio.timeout(LONG_S / 2):
        for offset in (2, 6):
            await consumer.fetch(offset)
    assert consumer.asked == [(2, 20), (6, 20)]


async def test_who_stands_before_a_hole_rests_although_there_is_more_behind_it():
    consumer = Fetched(end=7)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(5)
    await consumer.fetch(5)
    await consumer.fetch(6)
    assert consumer.asked == [(5, 20), (5, 1), (6, 20)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_who_has_read_to_the_end_rests():
    consumer = Fetched(end=7)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(6)
    await consumer.fetch(7)
    assert consumer.asked == [(6, 20), (7, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_broker_that_finds_nothing_in_its_time_is_given_more_at_once_until_it_finds():
    consumer = Fetched(end=7, reads_ms=70)
    Pacing(LONG_S).attach(consumer)
    async with asyncio.timeout(LONG_S / 2):
        brought = [await consumer.fetch(6) for _ in range(3)]
    assert brought == [False, False, True]
    assert consumer.asked == [(6, 20), (6, 40), (6, 80)]


def test_the_time_for_reading_has_an_end_and_shrinks_again():
    consumer, reading = Fetched(end=100), FetchWait()

    def fetch(offset: int, *, brings: bool) -> int:
        wait_ms = reading.wait_ms(consumer, asked := FetchRequest(1, 1, 1, 0, [("t", [(0, offset, 1)])]))
        assert wait_ms is not None
        asked._max_wait_ms = wait_ms
        reading.learn(consumer, asked, {TopicPartition("t", 0)} if brings else (), wait_ms / 1000)
        return wait_ms

    assert [fetch(5, brings=False) for _ in range(9)] == [20, 40, 80, 160, 320, 640, *[MAX_READ_MS] * 3]
    waits = [fetch(offset, brings=True) for offset in range(5, 60)]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == READ_MS


async def test_who_gets_an_answer_at_once_that_brings_nothing_rests():
    consumer = Fetched(end=7, reads_ms=None)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(6)
    await consumer.fetch(6)
    assert consumer.asked == [(6, 20), (6, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_ring_from_another_thread_ends_the_rest_and_one_during_a_fetch_lets_the_next_follow_at_once():
    consumer, pacing = Fetched(), Pacing(LONG_S)
    pacing.attach(consumer)
    await consumer.fetch(1)
    resting = asyncio.create_task(consumer.fetch(2))
    await asyncio.sleep(0)
    threading.Thread(target=pacing.notify).start()
    async with asyncio.timeout(LONG_S / 2):
        await resting
        pacing.notify()
        await consumer.fetch(3)
    assert len(consumer.asked) == 3


async def test_a_ring_for_a_late_process_waits_until_it_is_time():
    consumer, pacing = Fetched(), Pacing(0.001, lambda: 0.03)
    pacing.attach(consumer)
    await consumer.fetch(1)
    pacing.notify()
    await consumer.fetch(2)
    assert consumer.at[1] - consumer.at[0] >= 0.03


async def test_a_consumer_that_stops_ends_its_rest_without_a_fetch():
    consumer = Fetched()
    Pacing(LONG_S).attach(consumer)
    await consumer.fetch(1)
    resting = asyncio.create_task(consumer.fetch(2))
    await asyncio.sleep(0)
    resting.cancel()
    assert await resting is False
    assert len(consumer.asked) == 1


def test_a_ring_after_the_end_is_no_fault():
    pacing = Pacing(LONG_S)
    pacing.notify()

    async def live() -> None:
        pacing.attach(Fetched())

    asyncio.run(live())
    pacing.notify()
