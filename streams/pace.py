"""How often a consumer asks a broker that cannot wait.

Apache Kafka holds a fetch until there is data. The embedded broker (Tansu 0.6.0) looks again and again while it
holds one, and answers late: it is asked for what there is, and the consumer rests between two questions instead. A
publisher in the same process rings: then the consumer does not rest longer than it must. Who is behind does not rest.

The time that the embedded broker is given for an answer has to last for finding the place in the log, which takes the
longer the longer the log is; what it has not found by then it does not give, and the next fetch begins from scratch.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Container, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.protocol.fetch import FetchRequest

LONGEST_S = 0.2
"""However late the process is."""
_UNHURRIED = 5
READING_MS = 20
"""What the embedded broker needs to read a long row of records; it gives what it has read when the time is over."""
LONGEST_READING_MS = 1_000


def delay_s(least_s: float, loop_lag_s: float, *, interactive: bool, notified: bool) -> float:
    """How long to rest between two fetches, in seconds; ``least_s`` 0 means no rest at all.

    A process whose event loop comes ``late_s`` late gains nothing from records that it has sooner than it takes them.
    Beyond that, a consumer who was told of records (``rung``) does not rest; who is ``hurried``, because somebody
    waits for the records, rests ``least_s``, any other five times as long.
    """
    if least_s <= 0:
        return 0.0
    patience = 0.0 if notified else least_s if interactive else _UNHURRIED * least_s
    return max(patience, min(loop_lag_s, LONGEST_S))


def is_behind(assignment: Assignment, request: FetchRequest, asked: Mapping[tuple[str, int], int]) -> bool:
    """True where the last fetch of a partition told of more records than it brought, and brought some.

    ``asked``: from where each partition was fetched last. Who asks from there again stands before a hole, or gets no
    answer: to ask at once would only be to ask more often.
    """
    for topic, partitions in request.topics:
        for partition, offset, _ in partitions:
            has_more = _has_more(assignment, TopicPartition(topic, partition), offset)
            if has_more and asked.get((topic, partition)) != offset:
                return True
    return False


def _has_more(assignment: Assignment, place: TopicPartition, offset: int) -> bool:
    state = assignment.state_value(place)
    return state is not None and state.highwater is not None and offset < state.highwater


class FetchWait:
    """How long the broker is given to read, as one consumer has found that it needs."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], int] = {}
        self._needs_ms = READING_MS
        self._starved = False

    def wait_ms(self, assignment: Assignment, request: FetchRequest) -> int | None:
        """How long the broker may take, in milliseconds; None where nothing is known to be there to read."""
        waits = self._starved or is_behind(assignment, request, self._asked)
        return self._needs_ms if waits else None

    def learn(
        self, assignment: Assignment, request: FetchRequest, brought: Container[TopicPartition], took_s: float
    ) -> None:
        """What a fetch has ``brought``: nothing, of more that it tells of, means that its whole time was too short.

        Who answers at once, with an error for instance, did not lack time.
        """
        had_ms = request._max_wait_ms  # noqa: SLF001
        self._starved = False
        for topic, partitions in request.topics:
            for partition, offset, _ in partitions:
                self._asked[topic, partition] = offset
                place = TopicPartition(topic, partition)
                lacks = place not in brought and _has_more(assignment, place, offset)
                self._starved |= lacks and took_s * 1000 >= had_ms
        if not self._starved:
            self._needs_ms = max(READING_MS, self._needs_ms * 9 // 10)
        elif had_ms >= self._needs_ms:
            self._needs_ms = min(2 * self._needs_ms, LONGEST_READING_MS)


class Pacing:
    """The rests of one consumer, and the bell that ends them."""

    def __init__(
        self, least_s: float, loop_lag_s: Callable[[], float] = lambda: 0.0, *, interactive: bool = True
    ) -> None:
        self._least_s = least_s
        self._loop_lag_s = loop_lag_s
        self._interactive = interactive
        self._since = 0.0
        self._notified = False
        self._reading = FetchWait()
        self._wakeup = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def notify(self) -> None:
        """Tell that there is something to fetch. May be called from any thread."""
        if self._notified or self._loop is None:
            return
        self._notified = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wakeup.set)

    async def delay(self) -> None:
        """Return when it is time for the next fetch."""
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
        delay = delay_s(self._least_s, self._loop_lag_s(), interactive=self._interactive, notified=self._notified)
        return self._since + delay - time.monotonic()

    def keep(self, consumer: AIOKafkaConsumer) -> None:
        """Let a started consumer of the embedded broker rest between two fetches; to be called in its event loop."""
        self._loop = asyncio.get_running_loop()
        fetcher, reading = consumer._fetcher, self._reading  # noqa: SLF001
        fetch = fetcher._proc_fetch_request  # noqa: SLF001

        async def rested_fetch(assignment: Assignment, node: int, request: FetchRequest) -> bool:
            wait_ms = reading.wait_ms(assignment, request)
            if wait_ms is not None:
                request._max_wait_ms = max(request._max_wait_ms, wait_ms)  # noqa: SLF001
            else:
                try:
                    await self.delay()
                except asyncio.CancelledError:
                    return False  # as the fetch itself does: the partitions are given up, or the consumer stops
            begun = time.monotonic()
            found: bool = await fetch(assignment, node, request)
            self._since = time.monotonic()
            reading.learn(assignment, request, fetcher._records, self._since - begun)  # noqa: SLF001
            return found

        fetcher._proc_fetch_request = rested_fetch  # noqa: SLF001
