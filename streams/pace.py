"""How often a consumer asks a broker that cannot wait.

Apache Kafka holds a fetch until there is data. The embedded broker (Tansu 0.6.0) looks again and again while it
holds one, and answers late: it is asked for what there is, and the consumer rests between two questions instead. A
publisher in the same process rings: then the consumer does not rest longer than it must. Who is behind does not rest.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.protocol.fetch import FetchRequest

LONGEST_S = 0.2
"""However late the process is."""
_UNHURRIED = 5
_READING_MS = 20
"""What the embedded broker needs to read a long row of records; it gives what it has read when the time is over."""


def rest_s(least_s: float, late_s: float, *, hurried: bool, rung: bool) -> float:
    """How long to rest between two fetches, in seconds; ``least_s`` 0 means no rest at all.

    A process whose event loop comes ``late_s`` late gains nothing from records that it has sooner than it takes them.
    Beyond that, a consumer who was told of records (``rung``) does not rest; who is ``hurried``, because somebody
    waits for the records, rests ``least_s``, any other five times as long.
    """
    if least_s <= 0:
        return 0.0
    patience = 0.0 if rung else least_s if hurried else _UNHURRIED * least_s
    return max(patience, min(late_s, LONGEST_S))


def is_behind(assignment: Assignment, request: FetchRequest, asked: Mapping[tuple[str, int], int]) -> bool:
    """True where the last fetch of a partition told of more records than it brought, and brought some.

    ``asked``: from where each partition was fetched last. Who asks from there again stands before a hole, or gets no
    answer: to ask at once would only be to ask more often.
    """
    for topic, partitions in request.topics:
        for partition, offset, _ in partitions:
            state = assignment.state_value(TopicPartition(topic, partition))
            has_more = state is not None and state.highwater is not None and offset < state.highwater
            if has_more and asked.get((topic, partition)) != offset:
                return True
    return False


class Pace:
    """The rests of one consumer, and the bell that ends them."""

    def __init__(self, least_s: float, late_s: Callable[[], float] = lambda: 0.0, *, hurried: bool = True) -> None:
        self._least_s = least_s
        self._late_s = late_s
        self._hurried = hurried
        self._since = 0.0
        self._rung = False
        self._asked: dict[tuple[str, int], int] = {}
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """Tell that there is something to fetch. May be called from any thread."""
        if self._rung or self._loop is None:
            return
        self._rung = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._bell.set)

    async def rest(self) -> None:
        """Return when it is time for the next fetch."""
        loop = asyncio.get_running_loop()
        while (left := self._left_s()) > 0:
            # cheaper than a wait with a timeout, which ends by an exception
            self._bell.clear()
            alarm = loop.call_later(left, self._bell.set)
            try:
                await self._bell.wait()
            finally:
                alarm.cancel()
        self._rung = False

    def _left_s(self) -> float:
        rest = rest_s(self._least_s, self._late_s(), hurried=self._hurried, rung=self._rung)
        return self._since + rest - time.monotonic()

    def keep(self, consumer: AIOKafkaConsumer) -> None:
        """Let a started consumer rest between two fetches; to be called in its event loop."""
        if self._least_s <= 0:
            return
        self._loop = asyncio.get_running_loop()
        fetcher = consumer._fetcher  # noqa: SLF001
        fetch = fetcher._proc_fetch_request  # noqa: SLF001

        async def rested_fetch(assignment: Assignment, node: int, request: FetchRequest) -> bool:
            if is_behind(assignment, request, self._asked):
                request._max_wait_ms = max(request._max_wait_ms, _READING_MS)  # noqa: SLF001
            else:
                try:
                    await self.rest()
                except asyncio.CancelledError:
                    return False  # as the fetch itself does: the partitions are given up, or the consumer stops
            for topic, partitions in request.topics:
                self._asked.update({(topic, partition): offset for partition, offset, _ in partitions})
            found: bool = await fetch(assignment, node, request)
            self._since = time.monotonic()
            return found

        fetcher._proc_fetch_request = rested_fetch  # noqa: SLF001
