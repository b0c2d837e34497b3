"""The delay between two fetches of a consumer, and what ends it early."""

import asyncio
import itertools
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
def test_without_a_least_delay_there_is_none(loop_lag_s: float, interactive: bool, notified: bool):
    assert delay_s(0.0, loop_lag_s, interactive=interactive, notified=notified) == 0.0


@given(st.floats(0.001, 1), SECONDS, SECONDS, st.booleans(), st.booleans())
def test_the_delay_grows_with_the_loop_lag_up_to_a_bound(
    least_s: float, loop_lag_s: float, later_s: float, interactive: bool, notified: bool
):
    soon, late = sorted((loop_lag_s, later_s))
    first = delay_s(least_s, soon, interactive=interactive, notified=notified)
    second = delay_s(least_s, late, interactive=interactive, notified=notified)
    assert min(soon, MAX_DELAY_S) <= first <= second <= max(10 * least_s, MAX_DELAY_S)


@given(st.floats(0.001, 1), SECONDS)
def test_notified_and_interactive_consumers_are_delayed_less(least_s: float, loop_lag_s: float):
    notified, interactive, other = (
        delay_s(least_s, loop_lag_s, interactive=interactive, notified=notified)
        for interactive, notified in ((False, True), (True, False), (False, False))
    )
    assert notified <= interactive <= other
    assert interactive >= least_s


@given(st.floats(0.001, 1), SECONDS, st.booleans())
def test_one_that_is_notified_of_what_it_reads_looks_more_seldom_and_comes_as_soon(
    least_s: float, loop_lag_s: float, interactive: bool
):
    looks, waits = (
        delay_s(least_s, loop_lag_s, interactive=interactive, notified=False, fed=fed) for fed in (True, False)
    )
    assert looks > 9.9 * (least_s if interactive else 10 * least_s)
    assert looks >= waits
    notified = delay_s(least_s, loop_lag_s, interactive=interactive, notified=True, fed=True)
    assert notified == delay_s(least_s, loop_lag_s, interactive=interactive, notified=True)


class Fetched:
    """The fetches of a consumer of one partition.

    The last fetch reported ``end`` records. A fetch that may take ``reads_ms`` returns some; any other takes all its
    time and returns nothing. With ``reads_ms`` `None` it returns nothing at once.
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


async def test_fetches_are_delayed_and_return_what_they_find():
    consumer = Fetched()
    Pacing(0.02).attach(consumer)
    assert [await consumer.fetch(1), await consumer.fetch(2)] == [True, True]
    assert consumer.asked == [(1, 1), (2, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_consumer_behind_is_not_delayed_and_grants_time_to_read():
    consumer = Fetched(end=7)
    Pacing(LONG_S, lambda: LONG_S).attach(consumer)
    async with asyncio.timeout(LONG_S / 2):
        for offset in (2, 6):
            await consumer.fetch(offset)
    assert consumer.asked == [(2, 20), (6, 20)]


async def test_a_consumer_at_a_gap_is_delayed_although_there_are_records_behind_it():
    consumer = Fetched(end=7)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(5)
    await consumer.fetch(5)
    await consumer.fetch(6)
    assert consumer.asked == [(5, 20), (5, 1), (6, 20)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_consumer_at_the_end_is_delayed():
    consumer = Fetched(end=7)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(6)
    await consumer.fetch(7)
    assert consumer.asked == [(6, 20), (7, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_broker_that_lacks_time_is_granted_more_at_once():
    consumer = Fetched(end=7, reads_ms=70)
    Pacing(LONG_S).attach(consumer)
    async with asyncio.timeout(LONG_S / 2):
        returned = [await consumer.fetch(6) for _ in range(3)]
    assert returned == [False, False, True]
    assert consumer.asked == [(6, 20), (6, 40), (6, 80)]


def test_the_time_for_reading_has_an_end_and_shrinks_again():
    consumer, reading = Fetched(end=100), FetchWait()

    def fetch(offset: int, *, returns: bool) -> int:
        wait_ms = reading.wait_ms(consumer, asked := FetchRequest(1, 1, 1, 0, [("t", [(0, offset, 1)])]))
        assert wait_ms is not None
        asked._max_wait_ms = wait_ms
        reading.learn(consumer, asked, {TopicPartition("t", 0)} if returns else (), wait_ms / 1000)
        return wait_ms

    assert [fetch(5, returns=False) for _ in range(9)] == [20, 40, 80, 160, 320, 640, *[MAX_READ_MS] * 3]
    waits = [fetch(offset, returns=True) for offset in range(5, 60)]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == READ_MS


async def test_an_early_empty_answer_is_followed_by_a_delay():
    consumer = Fetched(end=7, reads_ms=None)
    Pacing(0.02).attach(consumer)
    await consumer.fetch(6)
    await consumer.fetch(6)
    assert consumer.asked == [(6, 20), (6, 1)]
    assert consumer.at[1] - consumer.at[0] >= 0.02


async def test_a_notification_ends_the_delay_and_one_during_a_fetch_cancels_the_next():
    consumer, pacing = Fetched(), Pacing(LONG_S)
    pacing.attach(consumer)
    await consumer.fetch(1)
    delayed = asyncio.create_task(consumer.fetch(2))
    await asyncio.sleep(0)
    threading.Thread(target=pacing.notify).start()
    async with asyncio.timeout(LONG_S / 2):
        await delayed
        pacing.notify()
        await consumer.fetch(3)
    assert len(consumer.asked) == 3


async def test_a_notification_does_not_shorten_the_delay_of_a_lagging_process():
    consumer, pacing = Fetched(), Pacing(0.001, lambda: 0.03)
    pacing.attach(consumer)
    await consumer.fetch(1)
    pacing.notify()
    await consumer.fetch(2)
    assert consumer.at[1] - consumer.at[0] >= 0.03


async def test_a_stopping_consumer_ends_its_delay_without_a_fetch():
    consumer = Fetched()
    Pacing(LONG_S).attach(consumer)
    await consumer.fetch(1)
    delayed = asyncio.create_task(consumer.fetch(2))
    await asyncio.sleep(0)
    delayed.cancel()
    assert await delayed is False
    assert len(consumer.asked) == 1


def test_a_notification_after_the_end_is_no_fault():
    pacing = Pacing(LONG_S)
    pacing.notify()

    async def live() -> None:
        pacing.attach(Fetched())

    asyncio.run(live())
    pacing.notify()


@given(st.floats(0.001, 1), st.booleans())
def test_one_that_is_notified_of_what_it_reads_looks_as_seldom_whoever_waits(least_s: float, interactive: bool):
    assert delay_s(least_s, 0.0, interactive=interactive, notified=False, fed=True) == 100 * least_s


async def test_a_notified_consumer_does_not_ask_whether_it_always_would_be():
    consumer, asked = Fetched(), itertools.count()
    pacing = Pacing(LONG_S, is_fed=lambda: next(asked) < 0)
    pacing.attach(consumer)
    await consumer.fetch(1)
    before = next(asked)
    pacing.notify()
    await consumer.fetch(2)
    assert next(asked) == before + 1
