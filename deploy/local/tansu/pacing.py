"""The delay between two fetches of a consumer, for a broker that cannot wait for records itself.

Apache Kafka holds a fetch until there are records. The embedded broker (Tansu 0.6.0) polls its log while it holds one,
and answers late. So it is asked only for the records that it has, and the consumer waits between two fetches instead.
A publisher in the same process notifies the consumer, which ends the wait early. A consumer with records left to read
does not wait. One that had neither records nor notifications for a while is idle: its waits grow. The broker's own
report of new records ends them (`eunoe.deploy.local.tansu.activity`).

The wait that a fetch grants the broker also bounds the time for finding the offset in the log, which grows with the
log. Records not found in that time are not returned, and the next fetch begins the search anew.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Container, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.protocol.fetch import FetchRequest

MAX_DELAY_S = 0.2
"""Longest delay on account of a lagging event loop, in seconds."""
_BACKGROUND_FACTOR = 10
_FED_FACTOR = 100
IDLE_AFTER_S = 10.0
"""Time without records and notifications after which a consumer is idle."""
MAX_REST_S = 2.0
"""Longest delay of an idle consumer."""
LOOK_S = 2.0
"""Seconds between two looks of the fetcher for what to fetch; all that matters wakes it before."""
READ_MS = 20
"""Time that a fetch with records to read grants the broker at first, in milliseconds."""
MAX_READ_MS = 1_000
"""Most time that a fetch grants the broker."""


def delay_s(least_s: float, loop_lag_s: float, *, interactive: bool, notified: bool, fed: bool = False) -> float:
    """The delay between two fetches in seconds; 0 where ``least_s`` is 0.

    It is never under ``loop_lag_s`` (up to `MAX_DELAY_S`): fetching sooner than the event loop takes the records gains
    nothing. Beyond that a notified consumer is not delayed, an ``interactive`` one by ``least_s``, any other by ten
    times as much. One that is ``fed``, notified of all but what commands write, is delayed by a hundred times as much.
    """
    if least_s <= 0:
        return 0.0
    factor = _FED_FACTOR if fed else 1 if interactive else _BACKGROUND_FACTOR
    return max(0.0 if notified else factor * least_s, min(loop_lag_s, MAX_DELAY_S))


def is_behind(assignment: Assignment, request: FetchRequest, asked: Mapping[tuple[str, int], int]) -> bool:
    """Whether the last fetch of some partition returned records and reported more of them.

    ``asked`` holds the offset of the last fetch of each (topic, partition). A request for the same offset again stands
    before a gap or got no answer; there a fetch without delay would only be one fetch more.
    """
    for topic, partitions in request.topics:
        for partition, offset, _ in partitions:
            has_more = _has_more(assignment, TopicPartition(topic, partition), offset)
            if has_more and asked.get((topic, partition)) != offset:
                return True
    return False


def _has_more(assignment: Assignment, partition: TopicPartition, offset: int) -> bool:
    state = assignment.state_value(partition)
    return state is not None and state.highwater is not None and offset < state.highwater


def rest_s(idle_s: float) -> float:
    """The least delay of a consumer that had no records for ``idle_s`` seconds: 0 at first, then it doubles."""
    return min(max(0.0, idle_s - IDLE_AFTER_S), MAX_REST_S)


class FetchWait:
    """The time that the broker gets to read records, learnt from the fetches of one consumer."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], int] = {}
        self._needs_ms = READ_MS
        self._starved = False

    def wait_ms(self, assignment: Assignment, request: FetchRequest) -> int | None:
        """The wait to grant, in milliseconds; `None` where no records are known to be left."""
        waits = self._starved or is_behind(assignment, request, self._asked)
        return self._needs_ms if waits else None

    def learn(
        self, assignment: Assignment, request: FetchRequest, returned: Container[TopicPartition], took_s: float
    ) -> None:
        """Learn from a fetch that took ``took_s`` seconds and returned records of these partitions.

        Records reported, but none returned in the whole time granted: the time was too short, and it is doubled.
        A fetch that ended early, for instance with an error, did not lack time.
        """
        had_ms = request._max_wait_ms  # noqa: SLF001
        self._starved = False
        for topic, partitions in request.topics:
            for number, offset, _ in partitions:
                self._asked[topic, number] = offset
                partition = TopicPartition(topic, number)
                lacks = partition not in returned and _has_more(assignment, partition, offset)
                self._starved |= lacks and took_s * 1000 >= had_ms
        if not self._starved:
            self._needs_ms = max(READ_MS, self._needs_ms * 9 // 10)
        elif had_ms >= self._needs_ms:
            self._needs_ms = min(2 * self._needs_ms, MAX_READ_MS)


class Pacing:
    """Delays the fetches of one consumer; a notification ends a delay early."""

    def __init__(
        self,
        least_s: float,
        loop_lag_s: Callable[[], float] = lambda: 0.0,
        is_interactive: Callable[[], bool] = lambda: True,
        is_fed: Callable[[], bool] = lambda: False,
        may_rest: Callable[[], bool] = lambda: True,
    ) -> None:
        self._least_s = least_s
        self._loop_lag_s = loop_lag_s
        self._is_interactive = is_interactive
        self._is_fed = is_fed
        self._may_rest = may_rest
        self._since = 0.0
        self._active_at = time.monotonic()
        self._notified = False
        self._fetch_wait = FetchWait()
        self._wakeup = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def notify(self) -> None:
        """Report that there are records to fetch. May be called from any thread."""
        self._active_at = time.monotonic()
        if self._notified or self._loop is None:
            return
        self._notified = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wakeup.set)

    async def delay(self) -> None:
        """Return when the next fetch is due."""
        loop = asyncio.get_running_loop()
        while (left := self._left_s()) > 0:
            # cheaper than a wait with a timeout, which ends by an exception
            self._wakeup.clear()
            alarm = loop.call_later(left, self._wakeup.set)
            try:
                await self._wakeup.wait()
            finally:
                alarm.cancel()
        self._notified = False

    def _left_s(self) -> float:
        delay = delay_s(
            self._least_s,
            self._loop_lag_s(),
            interactive=self._is_interactive(),
            notified=self._notified,
            fed=not self._notified and self._is_fed(),
        )
        if delay and not self._notified and self._may_rest():
            delay = max(delay, rest_s(self._since - self._active_at))
        return self._since + delay - time.monotonic()

    def attach(self, consumer: AIOKafkaConsumer) -> None:
        """Pace a started consumer of the embedded broker; to be called in its event loop."""
        self._loop = asyncio.get_running_loop()
        fetcher, fetch_wait = consumer._fetcher, self._fetch_wait  # noqa: SLF001
        fetcher._fetcher_timeout = LOOK_S  # noqa: SLF001
        fetch = fetcher._proc_fetch_request  # noqa: SLF001

        async def paced_fetch(assignment: Assignment, node: int, request: FetchRequest) -> bool:
            wait_ms = fetch_wait.wait_ms(assignment, request)
            if wait_ms is not None:
                request._max_wait_ms = max(request._max_wait_ms, wait_ms)  # noqa: SLF001
            else:
                try:
                    await self.delay()
                except asyncio.CancelledError:
                    return False  # as the fetch itself does: the partitions are revoked, or the consumer stops
            begun = time.monotonic()
            found: bool = await fetch(assignment, node, request)
            self._since = time.monotonic()
            if fetcher._records:  # noqa: SLF001
                self._active_at = self._since
            fetch_wait.learn(assignment, request, fetcher._records, self._since - begun)  # noqa: SLF001
            return found

        fetcher._proc_fetch_request = paced_fetch  # noqa: SLF001
